package client

import (
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// A client stays at a read-only node and tries a node without a leader. Its session remains connected read-only.
func TestN5TryingANodeWithoutALeaderKeepsTheReadOnlyState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		s := mustOpen(t, cl, time.Minute)
		first := c.owner(s)
		c.others(first)[0].becomes(session.ModeReadOnly)
		c.others(first)[1].becomes(session.ModeNoLeader)
		first.down()
		time.Sleep(10 * time.Second)
		wantPassages(t, s, StateConnectedReadOnly, "connected: connecting -> connected",
			"disconnected: connected -> connecting",
			"read-only: connecting -> connected read-only")
		if got := c.others(first)[1].count("resume"); got == 0 {
			t.Error("the node without a leader was not tried")
		}
	})
}

// A node that becomes read-only finishes the writes that it had started. The client accepts such a grant, knows that
// the node is read-only, and keeps searching for another.
func TestN5GrantOfANodeThatHasBecomeReadOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, 40*time.Second)
		first := c.owner(s)
		here := c.others(first)[0]
		here.becomes(session.ModeReadOnly)
		c.set(func() { here.underWay = 1 })
		first.down()
		time.Sleep(3 * time.Second)
		wantPassages(t, s, StateConnectedReadOnly, "connected: connecting -> connected",
			"disconnected: connected -> connecting",
			"connected: connecting -> connected", "read-only: connected -> connected read-only")
		first.up()
		time.Sleep(3 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connected read-only -> connected")
		if s.Owner() != first.number {
			t.Errorf("owner %d", s.Owner())
		}
	})
}

// Two read-only nodes grant each resume. The client pauses between them.
func TestReadOnlyNodesThatGrantAreTriedWithABackOff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, 40*time.Second)
		const most = 100
		for _, n := range c.others(c.owner(s)) {
			c.set(func() { n.underWay = most })
			n.isIn(session.ModeReadOnly, 10)
		}
		here := c.owner(s)
		c.set(func() { here.underWay = most })
		here.becomes(session.ModeReadOnly)
		time.Sleep(100 * time.Millisecond)
		if got := c.node(1).count("resume") + c.node(2).count("resume"); got == 0 || got > 50 {
			t.Errorf("%d resumes in 100 ms", got)
		}
	})
}

// A client that only watches does so at a read-only node, and stays there while it finds no better node: it asks one
// node to watch, however many it tries. It comes back at the first read-write node, from its newest stamp.
func TestN5WatchesAtAReadOnlyNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		c.grow()
		for _, n := range c.all() {
			n.becomes(session.ModeReadOnly)
		}
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		time.Sleep(10 * time.Second)
		c.change(create("/a"))
		wantStrings(t, all.take(), "started", "/a created")
		var here, better *fakeNode
		asked := 0
		for _, n := range c.all() {
			times := n.count("watch")
			if asked += times; times > 0 {
				here = n
			} else {
				better = n
			}
		}
		if asked != 1 {
			t.Fatalf("read-only nodes were asked to watch %d times, want once", asked)
		}
		c.set(func() {
			for s := range here.streams {
				clear(s.watches) // it receives no change, because it is cut off
			}
		})
		c.change(create("/b"))
		wantStrings(t, all.take())
		better.becomes(session.ModeReadWrite)
		time.Sleep(3 * time.Second)
		c.change(create("/c"))
		wantStrings(t, all.take(), "/b created", "/c created")
		if got := here.count("watch"); got != 0 {
			t.Errorf("the node that was left was asked to watch %d more times", got)
		}
	})
}

// Without leave to use read-only nodes, a watch waits for a better one.
func TestWatchesPassOverReadOnlyNodes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 1, func(cfg *Config) { cfg.ReadOnly = false })
		c.grow()
		c.node(1).becomes(session.ModeReadOnly)
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		time.Sleep(10 * time.Second)
		wantStrings(t, all.take())
		c.node(1).becomes(session.ModeReadWrite)
		time.Sleep(3 * time.Second)
		wantStrings(t, all.take(), "started")
	})
}

// When the first node turns out to be read-only, an open asks the next one at once.
func TestOpenGoesOnAtOnceFromAReadOnlyNode(t *testing.T) {
	for _, i := range []int{1, 2} { // the client asks one of them first
		bubble.Test(t, func(t *testing.T) {
			c, cl := newModalTrial(t, 2, nil)
			c.node(i).isIn(session.ModeReadOnly, 10)
			mustOpen(t, cl, 10*time.Second)
			if took := time.Since(c.start); took != 0 {
				t.Errorf("with node %d read-only the open took %v, want no wait", i, took)
			}
		})
	}
}

// Jeopardy ends and begins again while both messages are queued. Each message carries the mode at the time of its
// sending.
func TestLateJeopardyMessagesHaveTheCurrentMode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 1, nil)
		s := mustOpen(t, cl, time.Minute)
		here := c.node(1)
		here.becomes(session.ModeReadOnly)
		here.jeopardyEnded()
		here.jeopardy()
		wantPassages(t, s, StateConnectedReadOnly, "connected: connecting -> connected",
			"read-only: connected -> connected read-only",
			"jeopardy ended: connected read-only -> connected", "read-only: connected -> connected read-only")
	})
}

// A read-only node is read-write again while another node is asked for its sessions. The move is not cancelled, because
// it may have taken effect: the answer of the other node decides.
func TestReadWriteAgainWhileAnotherNodeIsAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, 40*time.Second)
		here := c.owner(s)
		other := c.others(here)[0]
		asked := 0
		other.answer(func(kind string) error {
			if kind == "resume" {
				asked++
				time.Sleep(time.Second)
			}
			return nil
		})
		here.becomes(session.ModeReadOnly)
		time.Sleep(500 * time.Millisecond)
		here.becomes(session.ModeReadWrite)
		time.Sleep(5 * time.Second)
		if s.Owner() != other.number || asked != 1 || strings.Contains(strings.Join(here.record(), " "), "resume") {
			t.Errorf("the session is at node %d; the other node was asked %d times, want once", s.Owner(), asked)
		}
	})
}
