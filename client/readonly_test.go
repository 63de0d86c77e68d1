package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A session is connected read-only while its node is read-only, and its event has the reason. It continues there when
// the node knows a leader again.
func TestN5SessionOfANodeThatBecomesReadOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		s := mustOpen(t, cl, 12*time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected")
		here := c.owner(s)
		for _, n := range c.others(here) {
			n.down()
		}
		here.becomes(session.ModeNoLeader)
		wantPassages(t, s, StateJeopardy, "jeopardy: connected -> jeopardy")
		c.set(func() { here.state.Mode = session.ModeReadOnly })
		here.jeopardy()
		synctest.Wait()
		e := <-s.Events()
		if got := passage(e); got != "read-only: jeopardy -> connected read-only" ||
			!errors.Is(e.Err, session.ErrReadOnly) || e.Address != here.address {
			t.Errorf("event %q of %s with %v", got, e.Address, e.Err)
		}
		here.record()
		time.Sleep(5 * time.Second)
		if got := here.record(); !slices.ContainsFunc(got, func(m string) bool {
			return strings.HasSuffix(m, "touch")
		}) {
			t.Errorf("got %q, want a touch: the next leader counts it", got)
		}
		wantPassages(t, s, StateConnectedReadOnly)
		here.becomes(session.ModeReadWrite)
		wantPassages(t, s, StateConnected, "jeopardy ended: connected read-only -> connected")
		if s.Owner() != here.number || s.Context().Err() != nil {
			t.Errorf("owner %d, context %v", s.Owner(), s.Context().Err())
		}
		c.set(func() {
			for _, n := range c.nodes {
				n.dials = nil
			}
		})
		time.Sleep(10 * time.Second)
		for _, n := range c.others(here) {
			if len(n.dialled()) > 0 {
				t.Errorf("%s was dialled at %v although the session is connected", n.address, n.dialled())
			}
		}
	})
}

// A client that finds no better node stays at a read-only node, keeps searching in the background, and moves with its
// session to the first read-write node.
func TestN5MovesToAReadWriteNodeWithTheSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		s := mustOpen(t, cl, 40*time.Second)
		first := c.owner(s)
		a, b := c.others(first)[0], c.others(first)[1]
		a.becomes(session.ModeReadOnly)
		b.down()
		first.down()
		time.Sleep(time.Second)
		wantPassages(t, s, StateConnectedReadOnly, "connected: connecting -> connected",
			"disconnected: connected -> connecting", "read-only: connecting -> connected read-only")
		if got := len(a.streams); got != 1 {
			t.Errorf("%d connections to the read-only node", got)
		}
		a.record()
		time.Sleep(10 * time.Second)
		wantPassages(t, s, StateConnectedReadOnly)
		c.set(func() {
			if len(b.dials) < 5 || len(b.dials) > 40 {
				t.Errorf("the node that is down was looked for %d times in 10 s", len(b.dials))
			}
		})
		b.up()
		time.Sleep(3 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connected read-only -> connected")
		if s.Owner() != b.number || s.Context().Err() != nil {
			t.Errorf("owner %d, context %v", s.Owner(), s.Context().Err())
		}
	})
}

// A client uses a read-only node at once, without a new connection, when it knows a leader again.
func TestN5ReadOnlyNodeThatIsReadWriteAgainIsUsedAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, 40*time.Second)
		first := c.owner(s)
		here := c.others(first)[0]
		here.becomes(session.ModeReadOnly)
		first.down()
		time.Sleep(5 * time.Second)
		wantPassages(t, s, StateConnectedReadOnly, "connected: connecting -> connected",
			"disconnected: connected -> connecting", "read-only: connecting -> connected read-only")
		here.record()
		at := time.Now()
		here.becomes(session.ModeReadWrite)
		wantPassages(t, s, StateConnected, "connected: connected read-only -> connected")
		if got := here.record(); len(got) != 1 || !strings.Contains(got[0], "resume") || time.Now() != at {
			t.Errorf("got %q after %v, want one resume at once", got, time.Since(at))
		}
	})
}

// A promise outlives the connection and runs out on its own, also while the session is connected read-only. When no
// node can be reached, the session is connecting.
func TestPromiseRunsOutWhileConnectedReadOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, 12*time.Second)
		first := c.owner(s)
		here := c.others(first)[0]
		here.becomes(session.ModeReadOnly)
		first.down()
		time.Sleep(5 * time.Second)
		if s.State() != StateConnectedReadOnly || s.Context().Err() != nil {
			t.Errorf("state %v, context %v: the promise outlives the connection", s.State(), s.Context().Err())
		}
		wantSafe(t, c, s, promised(12*time.Second))
		passages(s)
		time.Sleep(10 * time.Second)
		wantPassages(t, s, StateConnectedReadOnly, "lapsed: connected read-only -> connected read-only")
		if !s.SafeUntil().IsZero() || s.Context().Err() == nil {
			t.Error("a promise that has run out is told")
		}
		here.down()
		wantPassages(t, s, StateConnecting, "disconnected: connected read-only -> connecting")
		c.set(func() { here.state.Mode = session.ModeReadWrite })
		here.up()
		time.Sleep(5 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected", "regained: connected -> connected")
	})
}

// The cluster may end a session while its client sees only read-only nodes. The first read-write node tells the client.
func TestSessionThatExpiredWhileConnectedReadOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, 12*time.Second)
		first := c.owner(s)
		c.others(first)[0].becomes(session.ModeReadOnly)
		first.down()
		time.Sleep(20 * time.Second)
		c.set(func() { c.end(s.ID(), session.CauseExpired) })
		first.up()
		<-s.Done()
		if e, ok := errors.AsType[*session.ExpiredError](s.Err()); !ok || e.Certificate == nil ||
			s.State() != StateExpired {
			t.Errorf("state %v, error %v", s.State(), s.Err())
		}
	})
}

// A client that does not allow read-only nodes passes them over like nodes without a leader.
func TestReadOnlyNodesArePassedOverUnlessAllowed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, func(cfg *Config) { cfg.ReadOnly = false })
		s := mustOpen(t, cl, 40*time.Second)
		first := c.owner(s)
		here := c.others(first)[0]
		here.becomes(session.ModeReadOnly)
		first.down()
		time.Sleep(5 * time.Second)
		wantPassages(t, s, StateConnecting, "connected: connecting -> connected",
			"disconnected: connected -> connecting")
		here.becomes(session.ModeReadWrite)
		time.Sleep(3 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected")
	})
}

// An open waits for a read-write node. Its error includes that the nodes are read-only, and it succeeds at the first
// read-write node.
func TestN2OpenWaitsForAReadWriteNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var heard []string
		c, cl := newModalTrial(t, 3, func(cfg *Config) {
			cfg.OnNode = func(address string, state session.NodeState) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, strings.TrimSpace(address+" "+state.Mode.String()))
			}
		})
		for _, n := range c.all() {
			n.becomes(session.ModeReadOnly)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second})
		if !errors.Is(err, session.ErrReadOnly) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Open: got %v", err)
		}
		if c.opened != 0 {
			t.Errorf("%d sessions were opened", c.opened)
		}
		here := ""
		mu.Lock()
		for _, h := range heard {
			if strings.HasSuffix(h, session.ModeReadOnly.String()) {
				here = strings.Fields(h)[0]
			}
		}
		wantStrings(t, heard, here+" unknown", here+" read-only")
		mu.Unlock()
		time.AfterFunc(5*time.Second, func() {
			for _, n := range c.all() {
				if n.address != here {
					n.c.set(func() { n.state.Mode = session.ModeReadWrite })
					break
				}
			}
		})
		s := mustOpen(t, cl, 10*time.Second)
		if s.Owner() == c.nodes[here].number || c.opened != 1 {
			t.Errorf("owner %d, %d opened", s.Owner(), c.opened)
		}
		wantPassages(t, s, StateConnected, "connected: connecting -> connected")
	})
}

// An open that waits at a read-only node continues there when the node knows a leader.
func TestOpenGoesOnWhereTheNodeIsReadWriteAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 1, nil)
		c.node(1).becomes(session.ModeReadOnly)
		time.AfterFunc(5*time.Second, func() {
			c.set(func() { c.node(1).state.Mode = session.ModeReadWrite })
			c.node(1).jeopardyEnded()
		})
		mustOpen(t, cl, 10*time.Second)
		if got := time.Since(c.start); got < 5*time.Second || got > 6*time.Second {
			t.Errorf("opened after %v", got)
		}
	})
}

// Local sessions are opened, kept and resumed at their own node in any mode, and the client searches for no other node
// (L1 local to one node).
func TestL1LocalSessionOfAReadOnlyNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		for _, n := range c.all() {
			n.becomes(session.ModeReadOnly)
		}
		s, err := cl.Open(t.Context(), SessionOptions{Timeout: 10 * time.Second, Local: true})
		if err != nil {
			t.Fatal(err)
		}
		here := c.owner(s)
		here.jeopardy()
		time.Sleep(30 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected")
		here.cut()
		time.Sleep(3 * time.Second)
		if s.State() != StateConnected || s.Owner() != here.number || s.Context().Err() != nil {
			t.Errorf("state %v, owner %d, context %v after the connection was cut", s.State(), s.Owner(),
				s.Context().Err())
		}
	})
}

// More sessions than fit into one window wait at a read-only node. All are served again once a node is read-write, and
// the read-only nodes get few requests meanwhile.
func TestManySessionsAtAReadOnlyNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		const many = 2*window.MaxRequests + 10
		sessions := make([]*Session, many)
		var opening sync.WaitGroup
		for i := range sessions {
			opening.Go(func() { sessions[i] = mustOpen(t, cl, 40*time.Second) })
		}
		opening.Wait()
		first := c.owner(sessions[0])
		for _, n := range c.others(first) {
			n.becomes(session.ModeReadOnly)
			n.record()
		}
		first.down()
		time.Sleep(8 * time.Second)
		for _, s := range sessions {
			if s.State() != StateConnectedReadOnly {
				t.Fatalf("%v is %v", s.ID(), s.State())
			}
		}
		asked := len(c.others(first)[0].record()) + len(c.others(first)[1].record())
		if limit := 20 * window.MaxRequests; asked > limit {
			t.Errorf("read-only nodes were asked %d times in 8 s", asked)
		}
		first.up()
		time.Sleep(4 * time.Second)
		for _, s := range sessions {
			if s.State() != StateConnected || s.Context().Err() != nil {
				t.Fatalf("%v is %v, context %v", s.ID(), s.State(), s.Context().Err())
			}
		}
	})
}

func TestRepeatedJeopardyIsOneEvent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		c.node(1).refuse("resume", session.ErrNoLeader)
		for range 2 {
			c.node(
				1,
			).broadcast(
				&holdfastv1.ServerMessage{
					Message: &holdfastv1.ServerMessage_Jeopardy{Jeopardy: &holdfastv1.Jeopardy{}},
				},
			)
		}
		wantPassages(t, s, StateJeopardy, "connected: connecting -> connected", "jeopardy: connected -> jeopardy")
	})
}
