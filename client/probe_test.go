package client

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A local session belongs to its node, read-only or not (L1 local to one node). Rounds that search for a leader for
// global sessions leave it alone.
func TestL1LocalSessionIsLeftAloneAtItsReadOnlyNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		g := mustOpen(t, cl, 60*time.Second)
		s := mustOpenLocal(t, cl, 4*time.Second)
		here := c.owner(s)
		for _, n := range c.others(here) {
			n.down()
		}
		here.becomes(session.ModeNoLeader)
		here.becomes(session.ModeReadOnly)
		time.Sleep(40 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected")
		wantPassages(t, g, StateConnectedReadOnly, "connected: connecting -> connected",
			"jeopardy: connected -> jeopardy",
			"read-only: jeopardy -> connected read-only")
		here.cut()
		time.Sleep(3 * time.Second)
		if s.State() != StateConnected || s.Context().Err() != nil {
			t.Errorf("state %v, context %v after the connection was cut", s.State(), s.Context().Err())
		}
	})
}

// A client whose connection is to the node of a local session resumes it there at once, although the node is read-only.
func TestL1LocalSessionIsResumedAtAReadOnlyNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 1, nil)
		here := c.node(1)
		token := mustOpenLocal(t, newTestClient(t, c, c.endpoints(1, 1)), time.Minute).Token()
		g := mustOpen(t, cl, time.Minute)
		here.becomes(session.ModeReadOnly)
		wantPassages(t, g, StateConnectedReadOnly, "connected: connecting -> connected",
			"read-only: connected -> connected read-only")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := cl.Resume(ctx, token)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected")
	})
}

// An open that waits for a leader moves no local session, and asks the nodes with a back-off.
func TestOpenThatWaitsLeavesLocalSessionsAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		s := mustOpenLocal(t, cl, 10*time.Second)
		here := c.owner(s)
		for _, n := range c.others(here) {
			n.down()
		}
		here.becomes(session.ModeReadOnly)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second}); err == nil {
			t.Error("opened without a leader")
		}
		wantPassages(t, s, StateConnected, "connected: connecting -> connected")
		if got := len(here.dialled()); got < 4 || got > 40 {
			t.Errorf("%d connections to the node in 10 s", got)
		}
		before := len(here.dialled())
		time.Sleep(time.Minute)
		if got := len(here.dialled()); got != before {
			t.Errorf("%d more connections when nothing waits for a leader any more", got-before)
		}
		other := c.others(here)[0]
		other.up()
		g := mustOpen(t, cl, 10*time.Second)
		if g.Owner() != other.number {
			t.Errorf("owner %d", g.Owner())
		}
	})
}

// A read-only node without ids refuses a local open. The client asks another node (L2 local ids).
func TestL2LocalOpenTriesAnotherReadOnlyNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		first := ""
		for _, n := range c.all() {
			n.becomes(session.ModeReadOnly)
			n.answer(func(kind string) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				if kind == "open" && first == "" {
					first = n.address
				}
				if kind == "open" && first == n.address {
					return session.ErrNoLeader
				}
				return nil
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second, Local: true})
		if err != nil {
			t.Fatal(err)
		}
		if c.owner(s).address == first {
			t.Errorf("opened at %s", first)
		}
		time.Sleep(20 * time.Second)
		if s.State() != StateConnected || s.Context().Err() != nil {
			t.Errorf("state %v, context %v", s.State(), s.Context().Err())
		}
	})
}

// A client that holds no session does not return to a server that was removed from its list.
func TestRemovedServerIsForgottenWhenNothingIsHeld(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var place atomic.Value // the address of the node that the client is connected to
		c, cl := newModalTrial(t, 3, func(cfg *Config) {
			cfg.OnNode = func(address string, _ session.NodeState) { place.Store(address) }
		})
		for _, n := range c.all() {
			n.becomes(session.ModeReadOnly)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var opening sync.WaitGroup
		// This open waits for a leader until ctx ends.
		opening.Go(func() { _, _ = cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second}) })
		time.Sleep(time.Second)
		address, _ := place.Load().(string)
		here := c.nodes[address]
		if here == nil {
			t.Fatalf("the client is connected to %q, want a node", address)
		}
		var rest []string
		for _, n := range c.others(here) {
			rest = append(rest, n.address)
		}
		if err := cl.UpdateServers(rest); err != nil {
			t.Fatal(err)
		}
		opening.Wait()
		for _, n := range c.others(here) {
			n.becomes(session.ModeReadWrite)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second}); err != nil {
			t.Error(err)
		}
	})
}

// A node that accepts no writes gets one resume per connection, however many sessions wait. This holds with and without
// Config.ReadOnly.
func TestReadOnlyNodesAreProbed(t *testing.T) {
	for _, stay := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			c, cl := newModalTrial(t, 3, func(cfg *Config) { cfg.ReadOnly = stay })
			var sessions [100]*Session
			for i := range sessions {
				sessions[i] = mustOpen(t, cl, 40*time.Second)
			}
			first := c.owner(sessions[0])
			for _, n := range c.others(first) {
				n.becomes(session.ModeReadOnly)
			}
			first.down()
			time.Sleep(5 * time.Second)
			for _, n := range c.others(first) {
				n.count("")
				c.set(func() { n.dials = nil })
			}
			time.Sleep(10 * time.Second)
			for _, n := range c.others(first) {
				if got := n.count("resume"); got == 0 || got > len(n.dialled()) {
					t.Errorf("ReadOnly %v: %d resumes on %d connections, want 1 or more, and at most one on each", stay,
						got, len(n.dialled()))
				}
			}
			first.up()
			time.Sleep(4 * time.Second)
			for _, s := range sessions {
				if s.State() != StateConnected || s.Context().Err() != nil {
					t.Fatalf("ReadOnly %v: session %v is %v, context %v", stay, s.ID(), s.State(), s.Context().Err())
				}
			}
		})
	}
}

// A node that refuses the first resume with a retry time accepts writes. The other sessions ask for their retry times
// too.
func TestADelayedProbeReleasesTheOtherResumes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		a, b := mustOpen(t, cl, 40*time.Second), mustOpen(t, cl, 40*time.Second)
		first := c.owner(a)
		other := c.others(first)[0]
		other.becomes(session.ModeReadOnly)
		first.down()
		time.Sleep(5 * time.Second)
		first.record()
		until := time.Now().Add(8 * time.Second)
		first.answer(func(kind string) error {
			if wait := time.Until(until); kind == "resume" && wait > 0 {
				return &session.LimitError{Name: "moves", RetryAfter: wait}
			}
			return nil
		})
		first.up()
		time.Sleep(3 * time.Second)
		if got := first.count("resume"); got != 2 {
			t.Errorf("%d resumes, want one of each session", got)
		}
		time.Sleep(8 * time.Second)
		if a.State() != StateConnected || b.State() != StateConnected {
			t.Errorf("states %v and %v", a.State(), b.State())
		}
	})
}

// A client does not stay at a read-only node that lags behind the index that the client has seen, although the node
// first says that it is read-only.
func TestN5ReadOnlyNodeThatLagsIsNotStayedAt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, 40*time.Second)
		first := c.owner(s)
		c.others(first)[0].isIn(session.ModeReadOnly, 9)
		first.down()
		time.Sleep(3 * time.Second)
		wantPassages(t, s, StateConnecting, "connected: connecting -> connected",
			"disconnected: connected -> connecting")
		c.others(first)[0].isIn(session.ModeReadOnly, 10)
		time.Sleep(3 * time.Second)
		wantPassages(t, s, StateConnectedReadOnly, "read-only: connecting -> connected read-only")
	})
}

// A node serves one session and then loses its leader. A session that waits there is connecting, not connected
// read-only: the connection is not to a read-only node any more.
func TestN5SessionsThatWaitAtANodeWithoutALeaderAreNotReadOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		a, b := mustOpen(t, cl, time.Minute), mustOpen(t, cl, time.Minute)
		first := c.owner(a)
		stayed, better := c.others(first)[0], c.others(first)[1]
		stayed.becomes(session.ModeReadOnly)
		better.down()
		first.down()
		time.Sleep(3 * time.Second)
		if a.State() != StateConnectedReadOnly || b.State() != StateConnectedReadOnly {
			t.Fatalf("states %v and %v", a.State(), b.State())
		}
		c.set(func() { stayed.hang = true }) // the client cannot return there
		granted := false
		better.answer(func(kind string) error {
			if kind != "resume" || !granted {
				granted = granted || kind == "resume"
				return nil
			}
			c.set(func() { better.state.Mode, better.hang = session.ModeNoLeader, true })
			return session.ErrNoLeader
		})
		better.up()
		time.Sleep(2 * time.Second)
		served, waits := a, b
		if a.State() != StateConnected {
			served, waits = b, a
		}
		wantPassages(t, served, StateConnected, "connected: connecting -> connected",
			"disconnected: connected -> connecting",
			"read-only: connecting -> connected read-only", "connected: connected read-only -> connected")
		wantPassages(t, waits, StateConnecting, "connected: connecting -> connected",
			"disconnected: connected -> connecting",
			"read-only: connecting -> connected read-only", "disconnected: connected read-only -> connecting")
	})
}

// When a read-only node stops serving reads, and knows no leader either, its sessions are in jeopardy.
func TestN5ReadOnlyNodeThatStopsServingReads(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, time.Minute)
		here := c.owner(s)
		c.others(here)[0].down()
		here.becomes(session.ModeReadOnly)
		wantPassages(t, s, StateConnectedReadOnly, "connected: connecting -> connected",
			"read-only: connected -> connected read-only")
		here.becomes(session.ModeNoLeader)
		wantPassages(t, s, StateJeopardy, "jeopardy: connected read-only -> jeopardy")
	})
}

// A pool reports the server of a connection that stays at a read-only node, and reports the connection as not
// connected, so that opens prefer connections that accept writes.
func TestPoolKnowsConnectionsToReadOnlyNodes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		c.node(1).isIn(session.ModeReadWrite, 10)
		c.node(2).isIn(session.ModeReadWrite, 10)
		p := newPoolWith(t, Config{Endpoints: c.endpoints(1, 2), Dial: c.dial, ReadOnly: true}, 1)
		s, err := p.Open(t.Context(), SessionOptions{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		first := c.owner(s)
		other := c.others(first)[0]
		other.isIn(session.ModeReadOnly, 10)
		first.down()
		time.Sleep(5 * time.Second)
		if got := p.Connections()[0]; got.Server != other.address || got.Connected {
			t.Errorf("got %+v, want it at %s and not connected", got, other.address)
		}
	})
}
