package dispatch_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/session"
	"holdfast/watch"
)

// TestHistories runs clients that read, watch and write through two dispatchers of a node, with slow connections, rings
// that are overtaken, moves of sessions, and snapshots. All messages to the clients are checked against the log.
func TestHistories(t *testing.T) {
	tiny := dispatch.DefaultLimits()
	tiny.Requests, tiny.Unsent, tiny.Feed = 6, 3000, watch.FeedLimits{Events: 4, Bytes: 1 << 20}
	for _, setting := range []struct {
		name     string
		limits   dispatch.Limits
		ring     watch.RingLimits
		restores bool
	}{
		{"plain", dispatch.DefaultLimits(), watch.RingLimits{Items: 100_000, Bytes: 1 << 30}, false},
		{"narrow", tiny, watch.RingLimits{Items: 100_000, Bytes: 1 << 30}, false},
		{"skipping", tiny, watch.RingLimits{Items: 3, Bytes: 1 << 30}, true},
	} {
		t.Run(setting.name, func(t *testing.T) {
			var sum counts
			for seed := range uint64(1000) {
				w := newWorld(t, rand.New(rand.NewPCG(seed, 14)), setting.limits, setting.ring)
				w.run(setting.restores)
				sum.add(w)
			}
			t.Logf("%+v", sum)
			if sum.events == 0 || sum.reads == 0 || sum.between == 0 || sum.writes == 0 || setting.restores && sum.losts == 0 {
				t.Errorf("too little happened: %+v", sum)
			}
		})
	}
}

type counts struct{ events, reads, between, writes, losts int }

func (s *counts) add(w *world) {
	for _, c := range w.clients {
		s.events, s.reads, s.between = s.events+c.events, s.reads+c.reads, s.between+c.between
		s.writes, s.losts = s.writes+c.writesDone, s.losts+c.losts
	}
}

func (w *world) run(restores bool) {
	for id := range session.ID(3) {
		w.join(id+1, 1)
		if id == 0 {
			w.clients[0].watchAll()
		}
	}
	for range 150 {
		w.step(restores)
	}
	w.drain()
}

func (w *world) step(restores bool) {
	w.now = w.now.Add(100 * time.Millisecond)
	switch n := w.random.IntN(20); {
	case n < 4:
		w.apply()
	case n < 8:
		w.pass(w.dispatchers[w.random.IntN(len(w.dispatchers))])
	case n < 11:
		w.finish()
	case n == 11 && w.random.IntN(5) == 0:
		c := w.clients[w.random.IntN(len(w.clients))]
		switch {
		case c.left > 0:
		case restores && w.random.IntN(2) == 0:
			w.move(c, w.install)
		default:
			w.move(c, func() { w.hub.Applied(w.published(), nil, nil) })
		}
	case n == 12 && restores && w.random.IntN(5) == 0:
		w.restore()
	case n == 13:
		w.dispatchers[w.random.IntN(len(w.dispatchers))].Tick(w.now)
	default:
		w.clients[w.random.IntN(len(w.clients))].act()
	}
	w.collect()
}

// drain lets everything come to its end: each request is answered (I18 an answer).
func (w *world) drain() {
	for busy := true; busy; {
		busy = len(w.queue) > 0
		w.apply()
		for _, c := range w.clients {
			for _, p := range c.unasked {
				c.dispatcher.SetReadIndex(p, w.index, nil)
			}
			c.unasked = nil
		}
		for _, l := range w.dispatchers {
			if w.pass(l) {
				l.Tick(w.now)
			}
		}
		for w.collect(); len(w.jobs) > 0; {
			w.finish()
		}
		for _, c := range w.clients {
			for c.take(1) {
				busy = true
			}
		}
		if w.index > 10_000 {
			w.t.Fatalf("no end")
		}
	}
	for _, c := range w.clients {
		if len(c.asked) > 0 || c.conn.Unsent() != 0 {
			c.fatalf("%d requests are not answered, %d bytes are unsent", len(c.asked), c.conn.Unsent())
		}
	}
	if n := w.shared.Queued.Used(); n != 0 {
		w.t.Fatalf("%d bytes of requests wait", n)
	}
	if n := w.shared.Unsent.Used(); n != 0 {
		w.t.Fatalf("%d bytes of answers are unsent", n)
	}
}
