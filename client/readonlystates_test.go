package client

import (
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A node that is tried and hears of no leader takes nothing from the read-only one that is stayed at meanwhile.
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

// What was under way when a node became read-only is done there, and the client neither takes that for more than it is
// nor stays for it.
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

// Nodes that grant and are read-only, one after the other, are gone round with pauses.
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

// An open asks the next node at once when the first turns out to be read-only.
func TestOpenGoesOnAtOnceFromAReadOnlyNode(t *testing.T) {
	for _, i := range []int{1, 2} { // one of them is asked first
		bubble.Test(t, func(t *testing.T) {
			c, cl := newModalTrial(t, 2, nil)
			c.node(i).isIn(session.ModeReadOnly, 10)
			mustOpen(t, cl, 10*time.Second)
			if took := time.Since(c.start); took != 0 {
				t.Errorf("with node %d read-only it took %v", i, took)
			}
		})
	}
}

// Jeopardy is over, and comes again, while messages of both wait to be sent: each tells what the node is by then.
func TestLateJeopardyMessagesTellTheCurrentMode(t *testing.T) {
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

// A node that is read-write again while another one is asked for its sessions leaves the decision to that: a move that
// may have taken effect is not given up.
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
			t.Errorf("at node %d, which was asked %d times", s.Owner(), asked)
		}
	})
}
