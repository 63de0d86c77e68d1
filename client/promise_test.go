package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

// barrier blocks the callbacks that pass it while it is shut.
type barrier struct {
	shut    atomic.Bool
	reached atomic.Bool
	opened  chan struct{}
}

func newBarrier() *barrier { return &barrier{opened: make(chan struct{})} }

func (g *barrier) pass() {
	if g.shut.Load() {
		g.reached.Store(true)
		<-g.opened
	}
}

// Write makes a barrier the output of a logger.
func (g *barrier) Write(b []byte) (int, error) {
	g.pass()
	return len(b), nil
}

// I3: a logger or a callback of the application may block the client's loop, and never delays the end of a context.
func TestAContextEndsOnTimeWhateverBlocksTheLoop(t *testing.T) {
	blocks := map[string]func(*Config, *barrier){
		"logger": func(cfg *Config, g *barrier) {
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: g})
		},
		"OnNode": func(cfg *Config, g *barrier) {
			cfg.OnNode = func(string, session.NodeState) { g.pass() }
		},
	}
	for name, block := range blocks {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newFakeCluster(t, 2)
				cfg := Config{Endpoints: c.endpoints(1, 1), Dial: c.dial}
				g := newBarrier()
				block(&cfg, g)
				cl := newClientWith(t, cfg)
				t.Cleanup(func() { close(g.opened) }) // runs before the client's Close, which waits for the loop
				s := mustOpen(t, cl, 10*time.Second)
				time.Sleep(2500*time.Millisecond + promised(10*time.Second)/10)
				until, ctx := s.SafeUntil(), s.Context()
				g.shut.Store(true)
				c.node(1).down()
				time.Sleep(time.Until(until) - 1)
				synctest.Wait()
				if !g.reached.Load() {
					t.Fatal("nothing has blocked the loop: the test shows nothing")
				}
				if ctx.Err() != nil {
					t.Error("the context has ended a nanosecond before its promise")
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if got := context.Cause(ctx); !errors.Is(got, ErrLapsed) {
					t.Errorf("cause at the end of the promise: got %v, want %v", got, ErrLapsed)
				}
				if !s.SafeUntil().IsZero() || s.Context().Err() == nil {
					t.Errorf("after the end of the promise: safe until %v, context %v, want none and an ended one",
						s.SafeUntil(), s.Context().Err())
				}
			})
		})
	}
}

// A promise that is renewed in time keeps its context beyond the end of the promise before.
func TestARenewedPromiseKeepsItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 10*time.Second)
		ctx := s.Context()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Errorf("the context has ended although each promise was renewed: %v", context.Cause(ctx))
		}
	})
}

// A caller may read the clock before a suspension is noticed, and reach the session after its promise was renewed. The
// promise holds for that caller.
func TestS5AnEarlierClockReadingKeepsALaterPromise(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPromise(t.Context(), func() {})
		now := time.Now()
		p.renew(now.Add(time.Second), 1)
		if !p.holds(now, 0) || p.holds(now, 2) {
			t.Error(
				"a promise given after one suspension: want it to hold for a caller that saw none, and to be void " +
					"after two",
			)
		}
		p.drop(ErrLapsed)
	})
}

// A session drops its promise at its end. A dropped promise has no timer: otherwise timers pile up in a process that
// opens and closes sessions for years.
func TestADroppedPromiseHasNoTimer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ranOut := false
		p := newPromise(t.Context(), func() { ranOut = true })
		p.renew(time.Now().Add(time.Second), 0)
		ctx := p.context()
		p.drop(session.ErrClosed)
		if got := context.Cause(ctx); !errors.Is(got, session.ErrClosed) {
			t.Errorf("the context of a dropped promise ended because of %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if ranOut {
			t.Error("the timer of a dropped promise has gone off")
		}
	})
}

// A context that is asked for late is as if it had been there all the time.
func TestAContextIsMadeWhenItIsAskedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		type key struct{}
		opening, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 7))
		ranOut := 0
		p := newPromise(opening, func() { ranOut++ })
		if !p.renew(time.Now().Add(time.Second), 0) || p.renew(time.Now().Add(2*time.Second), 0) || p.timer != nil {
			t.Error("want the first promise alone to end a lapse, and no timer before anybody asks for the context")
		}
		cancel()
		ctx := p.context()
		if ctx.Err() != nil || ctx.Value(key{}) != 7 || p.context() != ctx {
			t.Errorf("context %v with value %v, want a living one with the value of the opening call", ctx.Err(),
				ctx.Value(key{}))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if ranOut != 1 {
			t.Errorf("the timer went off %d times by the end of the promise, want once", ranOut)
		}
		p.drop(ErrLapsed)
		lapsed := newPromise(t.Context(), func() {})
		if got := context.Cause(lapsed.context()); !errors.Is(got, ErrLapsed) {
			t.Errorf("the context of no promise ended because of %v", got)
		}
		if !lapsed.renew(time.Now().Add(time.Second), 0) || lapsed.context().Err() != nil {
			t.Error("a promise after a lapse has no living context")
		}
		lapsed.drop(ErrLapsed)
	})
}

// S5: suspensions that are too short to be noticed singly add up. All together make a promise too long by at most one
// second.
func TestS5ShortSuspensionsAddUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		w := newWallClock(cl.clock)
		s := mustOpen(t, cl, 30*time.Second)
		wantSafe(t, c, s, promised(30*time.Second))
		w.advance(900 * time.Millisecond)
		wantSafe(t, c, s, promised(30*time.Second))
		w.advance(900 * time.Millisecond)
		if got := s.SafeUntil(); !got.IsZero() {
			t.Errorf("SafeUntil after two suspensions of 0.9 s: got %v, want none", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s.SafeUntil().IsZero() {
			t.Fatal("not touched again after the suspension")
		}
	})
}
