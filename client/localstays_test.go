package client

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A connection that does not renew the promises of its local sessions is closed, although its node is read-only and
// their own. They are resumed through a new connection.
func TestL1LocalSessionsLeaveASilentReadOnlyConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 1, nil)
		here := c.node(1)
		g, s := mustOpen(t, cl, time.Minute), mustOpenLocal(t, cl, 8*time.Second)
		here.becomes(session.ModeReadOnly)
		here.silentFor(s, 8*time.Second)
		time.Sleep(30 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected",
			"disconnected: connected -> connecting",
			"connected: connecting -> connected")
		if s.Context().Err() != nil {
			t.Errorf("context %v", s.Context().Err())
		}
		if g.State() != StateConnectedReadOnly {
			t.Errorf("the global session is %v", g.State())
		}
	})
}

// A read-only node renews no promise of a global session. The client stays there all the same.
func TestReadOnlyNodeIsKeptWithoutPromises(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 1, nil)
		here := c.node(1)
		s := mustOpen(t, cl, 8*time.Second)
		here.becomes(session.ModeReadOnly)
		here.silentFor(s, 8*time.Second)
		time.Sleep(30 * time.Second)
		wantPassages(t, s, StateConnectedReadOnly, "connected: connecting -> connected",
			"read-only: connected -> connected read-only",
			"lapsed: connected read-only -> connected read-only")
		if got := here.count("touch"); got < 4 {
			t.Errorf("%d touches in 30 s, want 4 at least: the next leader counts them", got)
		}
	})
}

// A silent node that has reported nothing about its leader keeps its connection until another node serves, also for a
// local session.
func TestSilentNodeOfALocalSessionIsKeptUntilAnotherServes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpenLocal(t, cl, 8*time.Second)
		home := c.owner(s)
		home.silentFor(s, 8*time.Second)
		time.Sleep(20 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected", "connected: connected -> connected")
		if s.Owner() != home.number || s.Context().Err() != nil {
			t.Errorf("at node %d, context %v", s.Owner(), s.Context().Err())
		}
	})
}

// A client returns to the node of its local sessions although an open waits for a leader there. Without local sessions
// the client would not send that open either.
func TestAWaitingOpenGoesToTheNodeOfLocalSessions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpenLocal(t, cl, 12*time.Second)
		home := c.owner(s)
		c.set(func() { home.delay = time.Second })
		home.cut()
		synctest.Wait() // the client is dialling its node
		at := time.Now()
		g := mustOpen(t, cl, 12*time.Second)
		if took := time.Since(at); took != time.Second || g.Owner() != home.number {
			t.Errorf("opened by node %d after %v", g.Owner(), took)
		}
		wantPassages(t, s, StateConnected, "connected: connecting -> connected",
			"disconnected: connected -> connecting",
			"connected: connecting -> connected")
	})
}

// The grant of a local session shows no leader. When the node is silent about a global session, this session is resumed
// at another node.
func TestALocalGrantDoesNotKeepASilentNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		g, s := mustOpen(t, cl, 6*time.Second), mustOpenLocal(t, cl, 6*time.Second)
		home := c.owner(s)
		asked := false
		home.answer(func(string) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if got := home.got[len(home.got)-1]; strings.Contains(got, "resume "+g.ID().String()) {
				asked = true
				return errMute
			}
			return nil
		})
		home.cut()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if !asked || g.Owner() == home.number || g.State() != StateConnected || slices.Contains(kinds(g), "lapsed") {
			t.Errorf("the node was asked: %v; the session is %v at node %d", asked, g.State(), g.Owner())
		}
	})
}
