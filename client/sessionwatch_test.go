package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// A watch of sessions ends with its context, however many of its node's events are unread.
func TestWatchOfSessionsEndsWithItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		c.set(func() {
			c.told = []session.Event{{Stamp: 10}, {Stamp: 20, Lost: true}, {Stamp: 30, Lost: true}, {Stamp: 40, Lost: true}}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		heard := 0
		var ended error
		for _, err := range cl.WatchSessions(ctx) {
			if ended = err; err == nil {
				heard++
				synctest.Wait() // all has come
				cancel()
			}
		}
		if heard != 1 || !errors.Is(ended, context.Canceled) {
			t.Errorf("%d events came, %d of them after the end of the context, then %v", heard, heard-1, ended)
		}
	})
}

// A watch of sessions that was in place ends with the cause of its context alone. A watch that was not in place
// includes its obstacle: that no node answers, or a node's answer.
func TestWatchOfSessionsSaysWhyItEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		c.set(func() { c.told = []session.Event{{Stamp: 10}} })
		n, late := c.node(1), errors.New("too late")
		ended := func() (heard int, ended error) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, late)
			defer cancel()
			for _, err := range cl.WatchSessions(ctx) {
				if ended = err; err == nil {
					heard++
				}
			}
			return heard, ended
		}
		if heard, err := ended(); heard != 1 || !errors.Is(err, late) || errors.Is(err, ErrUnreachable) {
			t.Errorf("in place: heard %d events, then %v, want the cause alone", heard, err)
		}
		time.AfterFunc(5*time.Second, n.down)
		if heard, err := ended(); heard != 1 || !errors.Is(err, late) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("lost: heard %d events, then %v, want ErrUnreachable and the cause", heard, err)
		}
		n.up()
		n.refuse("watch sessions", session.ErrLagging)
		if heard, err := ended(); heard != 0 || !errors.Is(err, late) || !errors.Is(err, session.ErrLagging) {
			t.Errorf("refused: heard %d events, then %v, want ErrLagging and the cause", heard, err)
		}
	})
}

// A watch of sessions learns the members on its own, before the first event and later: with one endpoint it survives
// the nodes that serve it. With OnlyEndpoints it does not.
func TestWatchOfSessionsLearnsOfTheMembers(t *testing.T) {
	for _, only := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			c := newFakeCluster(t, 3)
			cl := newLearningClient(t, Config{Endpoints: c.endpoints(1, 1), Dial: c.dial, OnlyEndpoints: only})
			tell := func(stamp tree.Stamp) { c.set(func() { c.told = []session.Event{{Stamp: stamp, Lost: true}} }) }
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			tell(1)
			c.set(func() { c.left = 3 }) // it joins later
			var heard []tree.Stamp
			for e, err := range cl.WatchSessions(ctx) {
				if err != nil {
					break
				}
				heard = append(heard, e.Stamp)
				tell(e.Stamp + 1)
				switch len(heard) {
				case 1:
					c.node(1).down()
				case 2:
					c.set(func() { c.left = 0 })
					time.AfterFunc(15*time.Minute, c.node(2).down) // no sooner than the next question
				case 3:
					cancel()
				}
			}
			want := []tree.Stamp{1, 2, 3}
			if only {
				want = want[:1]
			}
			if !slices.Equal(heard, want) {
				t.Errorf("OnlyEndpoints %v: heard %v, want %v", only, heard, want)
			}
		})
	}
}

// A watch of sessions that comes back at another node repeats none of the events of its newest stamp, and leaves none
// out.
func TestV4SessionsComeBack(t *testing.T) {
	const began, moves, later = tree.Stamp(10), tree.Stamp(20), tree.Stamp(30)
	moved := func(stamp tree.Stamp, id session.ID) session.Event {
		return session.Event{Stamp: stamp, Moved: &session.Session{ID: id}}
	}
	var h sessionProgress
	var got []session.ID
	hear := func(events ...session.Event) {
		for _, e := range events {
			if h.accept(e) && e.Moved != nil {
				got = append(got, e.Moved.ID)
			}
		}
	}
	if h.again() != 0 || !h.accept(session.Event{Stamp: began}) {
		t.Fatal("the mark that the watch is in place is not told")
	}
	hear(moved(moves, 1), moved(moves, 2))
	if since := h.again(); since != began {
		t.Errorf("comes back with %v: must be %v, because the stamp %v may have more events", since, began, moves)
	}
	hear(moved(moves, 1), moved(moves, 2), moved(moves, 3), moved(later, 4))
	if since := h.again(); since != moves {
		t.Errorf("comes back with %v: must be %v", since, moves)
	}
	hear(moved(later, 4), session.Event{Stamp: later + 5})
	if since := h.again(); since != later+5 {
		t.Errorf("comes back with %v: must be what was told, %v", since, later+5)
	}
	if want := []session.ID{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("heard of %v, want %v", got, want)
	}
	if h.accept(session.Event{Stamp: later + 6}) || !h.accept(session.Event{Stamp: later + 9, Lost: true}) {
		t.Error("of what is no change, only LOST is told after the first mark")
	}
}
