package client

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A node in jeopardy, or read-only, may go on renewing promises from earlier confirmations (S3 length of a promise).
// The client searches for another node all the same, also when only an answer showed the mode.
func TestPromisesDoNotEndTheSearchForALeader(t *testing.T) {
	for name, lose := range map[string]func(n *fakeNode){
		"read-only": func(n *fakeNode) { n.isIn(session.ModeReadOnly, 10) },
		"jeopardy":  func(n *fakeNode) { n.jeopardy() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newModalTrial(t, 2, nil)
				s := mustOpen(t, cl, 12*time.Second)
				here := c.owner(s)
				other := c.others(here)[0]
				c.set(func() { other.delay, here.delay = 1500*time.Millisecond, time.Hour }) // of new connections
				// the next touch is due after 3 s
				time.Sleep(2 * time.Second)
				lose(here)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if s.Owner() != other.number || s.State() != StateConnected {
					t.Errorf("%v at node %d", s.State(), s.Owner())
				}
			})
		})
	}
}

// A client moves from a read-only node to added servers and finds only read-only ones. It goes on searching for a
// leader.
func TestAddedServersDoNotEndTheSearchForALeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		left := 0
		for range 5 { // each client moves with a probability of 6/8
			c := newFakeCluster(t, 8)
			cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 2), Dial: c.dial, ReadOnly: true})
			for _, n := range c.all() {
				n.isIn(session.ModeReadWrite, 10)
			}
			s := mustOpen(t, cl, time.Minute)
			for _, n := range c.all() {
				n.becomes(session.ModeReadOnly)
			}
			if err := cl.UpdateServers(c.endpoints(1, 8)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if slices.ContainsFunc(c.all()[2:], func(n *fakeNode) bool { return len(n.dialled()) > 0 }) {
				left++
			}
			better := c.others(c.owner(s))[0]
			better.becomes(session.ModeReadWrite)
			time.Sleep(5 * time.Second)
			if s.Owner() != better.number || s.State() != StateConnected {
				t.Errorf("%v at node %d, want connected at %d", s.State(), s.Owner(), better.number)
			}
		}
		if left == 0 {
			t.Error("no client moved to the added servers: the test shows nothing")
		}
	})
}

// A client leaves a server that was removed, although the server is read-write again before another one is found.
func TestRemovedServerThatIsReadWriteAgainIsLeft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		s := mustOpen(t, cl, time.Minute)
		first := c.owner(s)
		here, other := c.others(first)[0], c.others(first)[1]
		here.becomes(session.ModeReadOnly)
		other.down()
		first.down()
		time.Sleep(time.Second)
		if err := cl.UpdateServers([]string{first.address, other.address}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		here.becomes(session.ModeReadWrite)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected",
			"disconnected: connected -> connecting",
			"read-only: connecting -> connected read-only", "connected: connected read-only -> connected")
		other.up()
		time.Sleep(3 * time.Second)
		if s.Owner() != other.number {
			t.Errorf("the session is at node %d after its server was removed", s.Owner())
		}
	})
}

// A client that waits at a read-only node tries the node of its local sessions first when that is back, whichever other
// nodes are back too.
func TestL1NodeOfLocalSessionsIsTriedFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		g, s := mustOpen(t, cl, time.Minute), mustOpenLocal(t, cl, time.Minute)
		home := c.owner(s)
		stayed, other := c.others(home)[0], c.others(home)[1]
		stayed.becomes(session.ModeReadOnly)
		other.down()
		home.down()
		time.Sleep(3 * time.Second)
		if g.State() != StateConnectedReadOnly {
			t.Fatalf("state %v", g.State())
		}
		synctest.Wait()
		other.up()
		home.up()
		time.Sleep(3 * time.Second)
		if s.Err() != nil || s.State() != StateConnected || g.Owner() != home.number {
			t.Errorf("the local session is %v, %v; the global one at node %d", s.State(), s.Err(), g.Owner())
		}
	})
}

// A pool counts a connection at the read-only node where it stays, as soon as it stays there, rather than at the server
// that it tried before.
func TestPoolCountsAConnectionAtItsReadOnlyNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		for _, n := range c.all() {
			n.isIn(session.ModeReadWrite, 10)
		}
		p := newPoolWith(t, Config{Endpoints: c.endpoints(1, 3), Dial: c.dial, ReadOnly: true}, 1)
		s, err := p.Open(t.Context(), SessionOptions{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		first := c.owner(s)
		passed := ""
		for _, n := range c.others(first) {
			n.isIn(session.ModeReadOnly, 10)
			n.answer(func(string) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				if passed == "" {
					passed = n.address
				}
				if passed == n.address {
					return session.ErrStopping
				}
				return nil
			})
		}
		first.down()
		synctest.Wait()
		var last Event
		for len(s.Events()) > 0 {
			last = <-s.Events()
		}
		if got := p.Connections()[0].Server; last.Kind != ReadOnly || last.Address == passed || got != last.Address {
			t.Errorf("the pool counts the connection at %q; it is at %q (%v) after it passed over %q", got,
				last.Address,
				last.Kind, passed)
		}
		if s.State() != StateConnectedReadOnly || errors.Is(s.Err(), session.ErrReadOnly) {
			t.Errorf("%v, %v", s.State(), s.Err())
		}
	})
}
