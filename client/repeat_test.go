package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// O2: when the caller repeats an open with its request id, the session is attached to the node of the first open. The
// client has to resume it.
func TestO2AnOpenRepeatedByTheCallerIsResumed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 2), Dial: c.dial, InFlight: FailInFlight})
		here := c.owner(mustOpen(t, cl, 10*time.Second))
		here.refuseAll(errMuteAfter)
		time.AfterFunc(time.Second, here.down)
		o := SessionOptions{Timeout: 10 * time.Second, RequestID: session.RequestID{1}}
		if _, err := cl.Open(t.Context(), o); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Fatalf("open: %v, want %v", err, session.ErrOutcomeUnknown)
		}
		time.Sleep(time.Second)
		s, err := cl.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		c.set(func() {
			if c.sessions[s.ID()].served == nil {
				t.Errorf("the session is %v, promised for %v, and no node serves it", s.State(),
					time.Until(s.SafeUntil()))
			}
		})
	})
}

// A client holds a session once: a second Session of the same id would never end.
func TestOpenOfAHeldSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTrial(t, 1, 1)
		o := SessionOptions{Timeout: 10 * time.Second, RequestID: session.RequestID{1}}
		s, err := cl.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := cl.Open(t.Context(), o); !errors.Is(err, ErrHeld) {
			t.Errorf("opened %v, %v; want %v", again, err, ErrHeld)
		}
		time.Sleep(time.Minute)
		if s.State() != StateConnected || s.Context().Err() != nil {
			t.Errorf("the session is %v, its context %v", s.State(), s.Context().Err())
		}
	})
}

// A client stays at a read-only node and tries a busy one, which has an open wait. The open waits on its connection to
// the busy node: a new connection would get a new retry time.
func TestADelayedOpenKeepsItsConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		c.node(1).becomes(session.ModeReadOnly)
		busy, dials, turn := c.node(2), 0, time.Time{}
		c.set(func() {
			busy.delay = time.Second // so the client finds the read-only node first
			busy.script = func(kind string) error {
				if kind != "open" {
					return nil
				}
				if len(busy.dialled()) != dials { // a new connection gets a new retry time
					dials, turn = len(busy.dialled()), time.Now().Add(10*time.Second)
				}
				if time.Now().Before(turn) {
					return full(time.Until(turn))
				}
				return nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second}); err != nil {
			t.Errorf("Open: %v, after %d connections", err, len(busy.dialled()))
		}
	})
}
