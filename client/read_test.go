package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"holdfast/client/internal/unary"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A read-only node answers a read only when no node that knows a leader does, and the answer shows its mode.
func TestN3ReadOnlyNodesAnswerWhenNoOtherDoes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := mustOpen(t, cl, 10*time.Minute)
		c.node(1).isIn(session.ModeReadOnly, 10)
		for range 3 {
			f, err := cl.Get(ctx, s.ID())
			if err != nil || f.Session.ID != s.ID() || f.State.Mode != session.ModeReadWrite || f.State.Index != 10 {
				t.Errorf("Get: got %+v, %v", f, err)
			}
		}
		c.node(2).down()
		c.set(func() { c.node(3).hang = true })
		c.node(3).cut()
		begin := time.Now()
		page, err := cl.List(ctx, ListOptions{}) // any owner: the session may have moved
		if want := (session.NodeState{Node: 1, Mode: session.ModeReadOnly, Index: 10}); err != nil ||
			len(page.Sessions) != 1 || page.State != want {
			t.Errorf("List: got %+v, %v", page, err)
		}
		if took := time.Since(begin); took > DefaultConnectTimeout+unary.BetterWithin {
			t.Errorf("took %v", took)
		}
		begin = time.Now()
		var f Found
		if f, err = cl.Get(ctx, s.ID()); err != nil || f.State.Mode != session.ModeReadOnly || time.Since(begin) != 0 {
			t.Errorf("Get: got %+v, %v after %v: the node that answered a moment ago is asked first", f, err,
				time.Since(begin))
		}
		_, err = cl.Get(ctx, 77)
		if !errors.Is(err, session.ErrExpired) || !errors.Is(err, session.ErrReadOnly) {
			t.Errorf("Get of what a read-only node does not know: got %v", err)
		}
		c.set(func() { c.node(3).hang = false })
		time.Sleep(10 * time.Second)
		if f, err = cl.Get(ctx, s.ID()); err != nil || f.State.Mode != session.ModeReadWrite {
			t.Errorf("Get once there is a better node: got %+v, %v", f, err)
		}
	})
}

// A read reaches the read-only node within the time of the call, wherever the node stands in the list and however long
// the other nodes stay silent.
func TestReadOnlyNodeAnswersWithinTheTimeOfTheCall(t *testing.T) {
	for last := range 5 {
		bubble.Test(t, func(t *testing.T) {
			c, cl := newModalTrial(t, 5, nil)
			for _, n := range c.others(c.node(last + 1)) {
				c.set(func() { n.hang = true })
				n.cut()
			}
			c.node(last+1).isIn(session.ModeReadOnly, 10)
			for _, within := range []time.Duration{time.Second, 5 * time.Second} {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				begin := time.Now()
				if page, err := cl.List(ctx, ListOptions{}); err != nil || page.State.Mode != session.ModeReadOnly {
					t.Errorf("List of node %d: got %+v, %v after %v", last+1, page, err, time.Since(begin))
				}
				cancel()
				time.Sleep(unary.TrustFor)
			}
		})
	}
}

// A read starts at the node that has the connection of the sessions.
func TestReadsStartAtTheConnectedNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 5, nil)
		s := mustOpen(t, cl, 10*time.Minute)
		for _, n := range c.others(c.owner(s)) {
			c.set(func() { n.hang = true })
			n.cut()
		}
		begin := time.Now()
		if f, err := cl.Get(t.Context(), s.ID()); err != nil || f.State.Node != s.Owner() || time.Since(begin) != 0 {
			t.Errorf("Get: got %+v, %v after %v", f, err, time.Since(begin))
		}
	})
}

// Of several read-only nodes, the answer with the highest index counts.
func TestNewestReadOnlyAnswerCounts(t *testing.T) {
	for furthest := range 3 {
		bubble.Test(t, func(t *testing.T) {
			c, cl := newModalTrial(t, 3, nil)
			for i, n := range c.all() {
				n.isIn(session.ModeReadOnly, 10)
				c.set(func() { n.delay = 10 * time.Millisecond })
				if i == furthest {
					n.isIn(session.ModeReadOnly, 11)
				}
			}
			if page, err := cl.List(t.Context(), ListOptions{}); err != nil || page.State.Index != 11 {
				t.Errorf("List: got %+v, %v; node %d knows more", page, err, furthest+1)
			}
		})
	}
}

// A read-only node answers at once. A read-write node that answers half a second later is still preferred, wherever it
// stands in the list.
func TestN3AReadWriteNodeIsWaitedFor(t *testing.T) {
	for better := range 3 {
		bubble.Test(t, func(t *testing.T) {
			c, cl := newModalTrial(t, 3, nil)
			for i, n := range c.all() {
				if i != better {
					n.isIn(session.ModeReadOnly, 10)
				}
			}
			c.set(func() { c.node(better + 1).delay = unary.BetterWithin / 2 })
			begin := time.Now()
			page, err := cl.List(t.Context(), ListOptions{})
			if err != nil || page.State.Mode != session.ModeReadWrite {
				t.Errorf("List: got %+v, %v; node %d is read-write", page, err, better+1)
			}
			if took := time.Since(begin); took >= unary.BetterWithin {
				t.Errorf("took %v, although the answer came after %v", took, unary.BetterWithin/2)
			}
		})
	}
}

func TestReadOnlyNodesRefuseReadsThatDoNotAllowThem(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, func(cfg *Config) { cfg.ReadOnly = false })
		for _, n := range c.all() {
			n.isIn(session.ModeReadOnly, 10)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := cl.List(ctx, ListOptions{}); !errors.Is(err, session.ErrNoLeader) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("List: got %v", err)
		}
	})
}

// Resumes and reads carry the index that the client has seen. A node behind that index is passed over.
func TestN4SeenIndexTravels(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 3, nil)
		s := mustOpen(t, cl, 40*time.Second)
		if got := cl.SeenIndex(); got != 10 {
			t.Fatalf("seen %d of a node at 10", got)
		}
		first := c.owner(s)
		behind, ahead := c.others(first)[0], c.others(first)[1]
		c.set(func() { first.state.Index = 20 })
		first.broadcast(
			&holdfastv1.ServerMessage{
				Message: &holdfastv1.ServerMessage_JeopardyEnded{JeopardyEnded: &holdfastv1.JeopardyEnded{}},
			},
		)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected",
			"jeopardy ended: connected -> connected")
		behind.isIn(session.ModeReadOnly, 19)
		ahead.down()
		first.down()
		time.Sleep(5 * time.Second)
		wantPassages(t, s, StateConnecting, "disconnected: connected -> connecting")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if f, err := cl.Get(ctx, s.ID()); !errors.Is(err, session.ErrLagging) || errors.Is(err, ErrUnreachable) {
			t.Errorf("Get: got %+v, %v", f, err)
		}
		c.set(func() { ahead.state.Index = 21 })
		ahead.up()
		time.Sleep(5 * time.Second)
		if s.Owner() != ahead.number || cl.SeenIndex() != 21 {
			t.Errorf("owner %d, seen %d", s.Owner(), cl.SeenIndex())
		}
	})
}

// Refusals carry the index too.
func TestN4RefusalsCarryTheIndex(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 1, nil)
		c.node(1).isIn(session.ModeReadWrite, 33)
		if _, err := cl.Get(t.Context(), 77); !errors.Is(err, session.ErrExpired) || cl.SeenIndex() != 33 {
			t.Errorf("Get: got %v, seen %d", err, cl.SeenIndex())
		}
	})
}

// A node never shows an old state of its own local sessions, at any index of its log. An answer about a global session
// is refused when it is older than the client's index.
func TestN4LocalSessionsAreNeverStaleAtTheirNode(t *testing.T) {
	for _, local := range []bool{true, false} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprintf("local %v, ended %v", local, ended), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, cl := newModalTrial(t, 1, func(cfg *Config) { cfg.ReadOnly = false })
					s, err := cl.Open(t.Context(), SessionOptions{Timeout: time.Minute, Local: local})
					if err != nil {
						t.Fatal(err)
					}
					c.set(func() {
						c.node(1).state.Index, c.node(1).stale = 5, true
						if ended {
							cert := c.end(s.ID(), session.CauseExpired)
							if cert.Index = 5; local {
								cert.Index = 0
							}
							c.ended[s.ID()] = cert
						}
					})
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					f, err := cl.Get(ctx, s.ID())
					if (err == nil) != local || !local && !errors.Is(err, session.ErrLagging) {
						t.Errorf("Get at index 5 after index %d was seen: got %+v, %v", cl.SeenIndex(), f, err)
					}
				})
			})
		}
	}
}

// The connections of a pool share the seen index: a node that is behind one connection's index does not serve a session
// that another connection resumes.
func TestN4ConnectionsOfAPoolShareTheSeenIndex(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, single := newModalTrial(t, 2, nil)
		token := mustOpen(t, single, time.Minute).Token()
		p := newPoolWith(t, Config{Endpoints: c.endpoints(1, 2), Dial: c.dial}, 2)
		s, err := p.Open(t.Context(), SessionOptions{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ahead, behind := c.owner(s), c.other(s)
		ahead.isIn(session.ModeReadWrite, 44)
		ahead.jeopardyEnded() // carries the index
		synctest.Wait()
		behind.record()
		resumed, err := p.Resume(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if got := resumed.Owner(); got != ahead.number {
			t.Errorf("resumed at node %d, want node %d, which is not behind", got, ahead.number)
		}
		if behind.count("resume") == 0 {
			t.Error("the second connection did not try the node that is behind")
		}
	})
}

// Whatever the modes and indexes of the nodes, no read shows an older state than a read before it.
func TestN4ReadsNeverGoBack(t *testing.T) {
	type step struct {
		node   int
		mode   session.Mode
		ahead  uint64
		refuse bool
	}
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			node: rapid.IntRange(1, 3).Draw(t, "node"), mode: session.Mode(rapid.IntRange(1, 3).Draw(t, "mode")),
			ahead: rapid.Uint64Range(0, 3).Draw(t, "ahead"), refuse: rapid.Bool().Draw(t, "refuse"),
		}
	}), 1, 40)
	rapid.Check(t, func(rt *rapid.T) {
		plan := steps.Draw(rt, "steps")
		bubble.Test(t, func(t *testing.T) {
			c, cl := newModalTrial(t, 3, nil)
			s := mustOpen(t, cl, 10*time.Minute)
			var shown uint64
			for i, step := range plan {
				n := c.node(step.node)
				c.set(func() { n.state.Mode, n.state.Index = step.mode, n.state.Index+step.ahead })
				n.heal()
				if step.refuse {
					n.refuse("get", session.ErrStopping)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				f, err := cl.Get(ctx, s.ID())
				cancel()
				if err != nil {
					continue
				}
				if f.State.Index < shown || cl.SeenIndex() < f.State.Index {
					rt.Fatalf("step %d: index %d of node %d was shown after %d, seen %d", i, f.State.Index,
						f.State.Node, shown, cl.SeenIndex())
				}
				shown = f.State.Index
			}
		})
	})
}
