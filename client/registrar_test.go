package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// registrarTrial is a running registrar. Its hook returns the given answers in turn, then nil.
type registrarTrial struct {
	*Registrar
	calls []Establishment
	times []time.Duration
	ended chan error
	stop  context.CancelFunc
}

func startRegistrar(t *testing.T, c *fakeCluster, cl *Client, answers ...error) *registrarTrial {
	t.Helper()
	x := &registrarTrial{ended: make(chan error, 1)}
	r, err := NewRegistrar(cl, RegistrarOptions{
		Session: SessionOptions{Timeout: 12 * time.Second},
		Register: func(ctx context.Context, e Establishment) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			x.calls, x.times = append(x.calls, e), append(x.times, time.Since(c.start))
			if len(answers) == 0 {
				return nil
			}
			answer := answers[0]
			answers = answers[1:]
			return answer
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	x.Registrar, x.stop = r, cancel
	go func() { x.ended <- r.Run(ctx) }()
	synctest.Wait()
	return x
}

func TestExpiredSessionIsEstablishedAgainAndRegistered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		x := startRegistrar(t, c, cl)
		first := x.Session()
		if len(x.calls) != 1 || x.calls[0].Session != first || x.calls[0].Former != 0 || x.calls[0].Err != nil {
			t.Fatalf("the hook was called with %+v", x.calls)
		}
		time.Sleep(time.Second)
		c.expire(first.ID())
		synctest.Wait()
		second := x.Session()
		if len(x.calls) != 2 || second.ID() == first.ID() || second.Err() != nil || x.calls[1].Session != second ||
			x.calls[1].Former != first.ID() {
			t.Fatalf("the hook was called with %+v", x.calls)
		}
		if e, ok := errors.AsType[*session.ExpiredError](x.calls[1].Err); !ok || e.Certificate == nil {
			t.Errorf("the hook got %v, want the certificate of the former session", x.calls[1].Err)
		}
		if !errors.Is(first.Err(), session.ErrExpired) || first.State() != StateExpired {
			t.Errorf("the former session: %v, %v", first.State(), first.Err())
		}
		x.stop()
		if err := <-x.ended; !errors.Is(err, context.Canceled) || second.State() != StateClosed ||
			len(c.sessions) != 0 {
			t.Errorf("at the end: %v, %v, %d sessions", err, second.State(), len(c.sessions))
		}
	})
}

func TestHookThatFailsIsCalledAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		failure := errors.New("no place to register")
		x := startRegistrar(t, c, cl, failure, failure, failure, failure)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(x.calls) != 5 || c.opened != 1 || x.calls[4].Attempt != 5 {
			t.Fatalf("%d calls, %d sessions", len(x.calls), c.opened)
		}
		for i, limit := 1, DefaultMinBackoff; i < 5; i, limit = i+1, 2*limit {
			if gap := x.times[i] - x.times[i-1]; gap > limit {
				t.Errorf("call %d came %v after the call before, want at most %v", i+1, gap, limit)
			}
		}
	})
}

// A session may expire before it is registered. The hook is called with the next session.
func TestSessionThatExpiresBeforeItsRegistration(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		failure := errors.New("not yet")
		x := startRegistrar(t, c, cl, slices.Repeat([]error{failure}, 8)...)
		first := x.Session()
		c.expire(first.ID())
		time.Sleep(20 * time.Second)
		synctest.Wait()
		last := x.calls[len(x.calls)-1]
		if c.opened != 2 || last.Former != first.ID() || last.Session.State() != StateConnected {
			t.Errorf("%d sessions were opened, want 2; last call of the hook %+v", c.opened, last)
		}
	})
}

func TestRegistrarEnds(t *testing.T) {
	final := &session.FieldError{Field: "labels", Limit: "fewer"}
	tests := map[string]struct {
		do   func(c *fakeCluster, x *registrarTrial)
		hook error
		want error
	}{
		"hook stops it": {hook: fmt.Errorf("enough: %w", ErrStop), want: ErrStop},
		"hook stops it for its end": {
			hook: fmt.Errorf("%w: %w", ErrStop, &session.ExpiredError{ID: 1}), want: ErrStop,
		},
		"session is moved": {do: func(c *fakeCluster, x *registrarTrial) {
			c.set(func() {
				c.node(1).failures = map[session.ID]error{
					x.Session().ID(): session.MovedTo(session.Session{Attachment: 1 << 20, Instance: 1}),
				}
			})
		}, want: session.ErrMoved},
		"session is closed": {do: func(_ *fakeCluster, x *registrarTrial) {
			_ = x.Session().Close(context.Background())
		}, want: session.ErrClosed},
		"open is refused": {do: func(c *fakeCluster, x *registrarTrial) {
			c.node(1).refuseAll(final)
			c.expire(x.Session().ID())
		}, want: session.ErrInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 1, 1)
				x := startRegistrar(t, c, cl, tt.hook)
				if tt.do != nil {
					tt.do(c, x)
				}
				select {
				case err := <-x.ended:
					if !errors.Is(err, tt.want) {
						t.Errorf("got %v, want %v", err, tt.want)
					}
				case <-time.After(time.Hour): // touches go on for ever
					t.Fatal("the registrar goes on")
				}
				if s := x.Session(); s.Err() == nil {
					t.Error("the session lives on after the registrar has ended")
				}
				if c.opened != 1 {
					t.Errorf("%d sessions were opened, want 1", c.opened)
				}
			})
		})
	}
}

func TestRegistrarWaitsForALimitToPass(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		c.node(1).refuseFirst(4, &session.LimitError{Name: "sessions", Limit: "7"})
		x := startRegistrar(t, c, cl)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if opens := c.node(1).count("open"); len(x.calls) != 1 || opens != 5 {
			t.Errorf("the hook was called %d times after %d opens, want 1 and 5", len(x.calls), opens)
		}
	})
}

// Without a registrar no session is opened in the place of an expired one.
func TestNothingIsEstablishedSilently(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 12*time.Second)
		c.expire(s.ID())
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.opened != 1 || s.State() != StateExpired || !errors.Is(s.Err(), session.ErrExpired) ||
			s.Context().Err() == nil {
			t.Errorf("%d sessions opened, state %v, error %v", c.opened, s.State(), s.Err())
		}
		for i := range 2 {
			for _, m := range c.node(i + 1).record() {
				if m != "0s open" {
					t.Errorf("sent %q", m)
				}
			}
		}
		if _, err := NewRegistrar(cl, RegistrarOptions{}); !errors.Is(err, session.ErrInvalid) ||
			!strings.Contains(err.Error(), "silently") {
			t.Errorf("a registrar without a hook: %v", err)
		}
		hook := func(context.Context, Establishment) error { return nil }
		for _, o := range []RegistrarOptions{
			{Register: hook, MinBackoff: -1}, {
				Register: hook, Session: SessionOptions{RequestID: session.RequestID{1}},
			},
		} {
			if _, err := NewRegistrar(cl, o); !errors.Is(err, session.ErrInvalid) {
				t.Errorf("NewRegistrar(%+v): %v", o, err)
			}
		}
	})
}

// TestContextOfARegistration: the context of Register outlives the call and lapses of the promise: until the session
// ends, Run's context does, or the call has failed.
func TestContextOfARegistration(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		failure := errors.New("no place to register")
		var contexts []context.Context
		r, err := NewRegistrar(cl, RegistrarOptions{
			Session: SessionOptions{Timeout: 12 * time.Second},
			Register: func(ctx context.Context, e Establishment) error {
				if contexts = append(contexts, ctx); e.Former == 0 && e.Attempt == 1 {
					return failure
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(contexts) != 2 {
			t.Fatalf("Register was called %d times, want 2", len(contexts))
		}
		if err := context.Cause(contexts[0]); !errors.Is(err, failure) {
			t.Errorf("after a call that failed its context: %v", err)
		}
		first := r.Session()
		first.lapse()
		synctest.Wait()
		if err := contexts[1].Err(); err != nil {
			t.Errorf("the session is registered, and the context of the call has ended: %v", context.Cause(contexts[1]))
		}
		c.expire(first.ID())
		time.Sleep(time.Second)
		synctest.Wait()
		if err := context.Cause(contexts[1]); !errors.Is(err, session.ErrExpired) {
			t.Errorf("after the end of the session: %v", err)
		}
		if len(contexts) != 3 || contexts[2].Err() != nil {
			t.Fatalf("%d calls, and the last one's context: %v", len(contexts), contexts[len(contexts)-1].Err())
		}
		cancel()
		<-ended
		synctest.Wait()
		if contexts[2].Err() == nil {
			t.Error("Run has ended, and the context of the last call has not")
		}
	})
}

// A registrar whose token is refused returns the error at the start. Later it continues: a token that is replaced too
// late must not end a registration for good.
func TestARegistrarSurvivesADenial(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		registered := make(chan session.ID, 2)
		run := func() error {
			r, err := NewRegistrar(cl, RegistrarOptions{
				Session: SessionOptions{Timeout: time.Minute},
				Register: func(_ context.Context, e Establishment) error {
					registered <- e.Session.ID()
					return nil
				},
			})
			if err != nil {
				return err
			}
			return r.Run(ctx)
		}
		c.node(1).refuse("open", forbidden)
		if err := run(); !errors.Is(err, session.ErrForbidden) {
			t.Errorf("at the start: %v", err)
		}
		c.node(1).heal()
		ended := make(chan error, 1)
		go func() { ended <- run() }()
		first := <-registered
		c.node(1).refuse("open", forbidden)
		c.expire(first)
		time.Sleep(20 * time.Second)
		c.node(1).heal()
		select {
		case second := <-registered:
			if second == first {
				t.Errorf("registered %v again", second)
			}
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		}
		cancel()
		<-ended
	})
}

// stalledEnd is a context that ends when its channel is closed. The first caller of Err waits until it is released.
type stalledEnd struct {
	over, released chan struct{}
	asked          atomic.Bool
}

func (*stalledEnd) Deadline() (at time.Time, ok bool) { return time.Time{}, false }

func (e *stalledEnd) Done() <-chan struct{} { return e.over }

func (*stalledEnd) Value(any) any { return nil }

func (e *stalledEnd) Err() error {
	select {
	case <-e.over:
		if e.asked.CompareAndSwap(false, true) {
			<-e.released
		}
		return context.Canceled
	default:
		return nil
	}
}

// Run waits for all that it began: here for the goroutine that ends the context of the registration, which asks for the
// reason while Run closes the session.
func TestARegistrarWaitsForItsGoroutines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTrial(t, 1, 1)
		registered := make(chan context.Context, 1)
		r, err := NewRegistrar(cl, RegistrarOptions{
			Session: SessionOptions{Timeout: time.Minute},
			Register: func(ctx context.Context, _ Establishment) error {
				registered <- ctx
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		end := &stalledEnd{over: make(chan struct{}), released: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- r.Run(end) }()
		synctest.Wait()
		close(end.over)
		time.Sleep(2 * closeWithin)
		select {
		case err := <-ended:
			t.Errorf("Run has returned %v while what it began goes on", err)
		default:
		}
		close(end.released)
		synctest.Wait()
		if ctx := <-registered; ctx.Err() == nil {
			t.Error("the context of the registration lives")
		}
	})
}
