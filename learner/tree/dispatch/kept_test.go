package dispatch_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/watch"
)

// TestKeptTrees: a node keeps 4,096 trees for reads that writes have passed. A read whose tree was dropped is refused
// with LAGGING, and the others show exactly the tree before the write behind them (G3 order in a session).
func TestKeptTrees(t *testing.T) {
	const kept, dropped = 4096, 3
	limits := dispatch.DefaultLimits()
	limits.Requests = 3 * kept
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)), limits, watch.RingLimits{Items: 100_000, Bytes: 1 << 30})
	w.shared.Writes = noWrites{}
	l := dispatch.New(w.shared, limits, func() {})
	c := l.Open(root, func() {})
	l.Attach(c, 1, 1, 1)
	write := func(number uint64) {
		err := l.Write(c, dispatch.Write{Key: number, Write: pending.Write{Session: 1, Attachment: 1, Number: number}})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	for number := uint64(2); number <= kept+dropped+1; number++ {
		read := tree.Query{Kind: tree.GetEntry, Path: "/a", Session: 1}
		if _, err := l.Read(c, dispatch.Read{Key: 1_000_000 + number, Attachment: 1, Query: read}); err != nil {
			t.Fatal(err)
		}
		write(number)
	}
	w.index++
	var changes []tree.Change
	var wrote []pending.Outcome
	var results [][]byte
	for number := uint64(1); number <= kept+dropped+1; number++ {
		at := store.At{Stamp: tree.StampAt(w.index, int(number)), Principals: root}
		one := pending.Outcome{Session: 1, Attachment: 1, Number: number, At: at.Stamp, Result: result(at.Stamp)}
		if number > 1 {
			one.Before = w.tree.Freeze()
		}
		var op tree.Op = tree.Set{Path: "/a", Version: tree.Any, Data: result(at.Stamp)}
		if number == 1 {
			op = tree.Create{Path: "/a", Kind: tree.Persistent, Data: result(at.Stamp)}
		}
		_, more := w.tree.Do(at, tree.Transaction{Then: []tree.Op{op}})
		changes, wrote, results = append(changes, more...), append(wrote, one), append(results, one.Result)
	}
	w.kept[1] = writer{attachment: 1, results: results}
	w.hub.Applied(w.published(), changes, wrote)
	l.Pass()
	for _, job := range l.Work() {
		job.Do()
	}
	var answers []*dispatch.Answer
	for s, ok := c.Next(time.Time{}); ok; s, ok = c.Next(time.Time{}) {
		answers = append(answers, s.Value.Answer)
	}
	if want := 2*(kept+dropped) + 1; len(answers) != want {
		t.Fatalf("%d answers, want %d", len(answers), want)
	}
	lagging := 0
	for _, a := range answers {
		switch number := a.Key - 1_000_000; {
		case a.Key < 1_000_000:
		case errors.Is(a.Err, session.ErrLagging):
			lagging++
			if number > dropped+1 {
				t.Errorf("the read before write %d is refused", number)
			}
		case a.Err != nil || string(a.Read.Data) != string(results[number-2]) ||
			a.Stamp != tree.StampAt(w.index, int(number)-1):
			t.Errorf("the read before write %d shows %x at %v, %v", number, a.Read.Data, a.Stamp, a.Err)
		}
	}
	if lagging != dropped {
		t.Errorf("%d reads are refused, want %d", lagging, dropped)
	}
}
