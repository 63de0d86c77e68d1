package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/learner/tree/dispatch"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/watch"
)

// transact applies an entry with one command that sets so many entries, and returns the events of a recursive watch of
// the root.
func (w *world) transact(sets int) (told []tree.Event) {
	w.index++
	var ops []tree.Op
	for range sets {
		ops = append(ops, tree.Set{Path: fmt.Sprintf("/p/%d", w.random.IntN(3)), Version: tree.Any})
	}
	at := store.At{Stamp: tree.StampAt(w.index, 1), Principals: root}
	_, changes := w.tree.Do(at, tree.Transaction{Then: ops})
	for _, c := range changes {
		told = append(told, tree.Event{Stamp: c.Stamp, Kind: tree.DataChanged, Path: c.Path})
	}
	w.hub.Applied(w.published(), changes, nil)
	return told
}

// TestPortionsWhileTheTreeChanges: a client that comes back in portions gets the event of each change once and in
// order, also of changes between two portions, and in the end the watch is live. No portion makes a LOST.
func TestPortionsWhileTheTreeChanges(t *testing.T) {
	portions := 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		limits := dispatch.DefaultLimits()
		limits.Feed.Events = 2 + random.IntN(20)
		w := newWorld(t, random, limits, watch.RingLimits{Items: 1 << 14, Bytes: 1 << 24})
		l := w.dispatchers[0]
		for n := range 3 {
			w.set(fmt.Sprintf("/p/%d", n), nil)
		}
		since := watch.End(w.index)
		var want, got []tree.Event
		for range 30 {
			want = append(want, w.transact(1+random.IntN(25))...)
		}
		l.Pass()
		c := l.Open(root, func() {})
		a := tree.Addition{
			Watches: []tree.WatchSpec{{Path: "/", Kind: tree.WatchRecursive}}, Since: since, InPortions: true,
		}
		take := func() *dispatch.Answer {
			for {
				s, ok := c.Next(w.now)
				switch {
				case !ok:
					return nil
				case s.Lost:
					t.Fatalf("seed %d: lost behind %d events", seed, len(got))
				case s.Value.Answer != nil:
					return s.Value.Answer
				}
				got = append(got, s.Value.Event)
			}
		}
		for more := true; more; {
			if err := l.AddWatches(c, dispatch.Addition{Addition: a}); err != nil {
				t.Fatal(err)
			}
			answer := take()
			if answer.Err != nil || answer.Lost {
				t.Fatalf("seed %d: %+v", seed, answer)
			}
			if more = answer.More != nil; more {
				portions++
				a.Delivered = *answer.More
			}
			if more && random.IntN(4) == 0 { // fewer between two portions than a portion has
				want = append(want, w.transact(1+random.IntN(2))...)
				l.Pass()
				if s, ok := c.Next(w.now); ok && !s.Quiet {
					t.Fatalf("seed %d: told %+v before the watch is added", seed, s)
				}
			}
		}
		for range 5 {
			want = append(want, w.transact(1)...)
			l.Pass()
			take()
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: told %d events, want %d", seed, len(got), len(want))
		}
		l.Close(c)
	}
	if portions < 800 {
		t.Errorf("%d portions: the test does too little", portions)
	}
}
