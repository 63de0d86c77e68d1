package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

func TestTouchesEveryThirdOfTheTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		wantSafe(t, c, s, promised(12*time.Second))
		mustOpen(t, cl, 11*time.Second) // one message touches both
		time.Sleep(8 * time.Second)
		synctest.Wait()
		third := 11 * time.Second / 3
		wantStrings(t, c.node(1).record(), "0s open", "0s open", third.String()+" touch",
			(2*third).String()+" touch")
		wantSafe(t, c, s, 2*third+promised(11*time.Second))
	})
}

func TestS3PromiseCountsFromTheSendingAndNeverShrinks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		n := c.node(1)
		promises := []time.Duration{11 * time.Second, 5 * time.Second, 8 * time.Second}
		c.set(func() {
			n.promise = func(time.Duration) time.Duration { // see slow: the answer takes half a second
				p := promises[0]
				promises = promises[1:]
				return p
			}
		})
		n.slow(500 * time.Millisecond)
		time.Sleep(4 * time.Second)
		wantSafe(t, c, s, promised(12*time.Second))
		time.Sleep(500 * time.Millisecond)
		wantSafe(t, c, s, 15*time.Second) // sent at 4 s
		time.Sleep(4 * time.Second)
		wantSafe(t, c, s, 15*time.Second) // sent at 8 s, promised 5 s: earlier than 15 s
		time.Sleep(2999 * time.Millisecond)
		wantSafe(t, c, s, 15*time.Second)
		time.Sleep(time.Millisecond) // so little was promised that the next touch came after a quarter of the timeout
		wantSafe(t, c, s, 19*time.Second)
		wantStrings(t, n.record(), "0s open", "4s touch", "8s touch", "11s touch")
	})
}

func TestContextEndsWithThePromiseToTheNanosecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 10*time.Second)
		ctx := s.Context()
		c.set(func() {
			c.node(1).muteGrants = true
			c.node(1).promise = func(time.Duration) time.Duration { return -1 }
		})
		time.Sleep(promised(10*time.Second) - 1)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("context has ended a nanosecond before the promise runs out")
		}
		wantSafe(t, c, s, promised(10*time.Second))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := context.Cause(ctx); !errors.Is(got, ErrLapsed) {
			t.Fatalf("cause: got %v, want %v", got, ErrLapsed)
		}
		wantSafe(t, c, s, -1)
		if s.Context().Err() == nil {
			t.Error("Context during a lapse has not ended")
		}
		select {
		case <-s.Done():
			t.Error("the session is done after a lapse, want it to go on")
		default:
		}
		c.set(func() { c.node(1).promise = nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s.Context().Err() != nil || ctx.Err() == nil {
			t.Error(
				"after the promise is regained: want a new context that has not ended, and the former one still ended",
			)
		}
		if got := kinds(s); !slices.Contains(got, "lapsed") || !slices.Contains(got, "regained") {
			t.Errorf("events: %q", got)
		}
	})
}

func TestContextCarriesValuesButNotTheEndOfTheCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTrial(t, 1, 1)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		s, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second, Labels: map[string]string{"a": "b"}})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Context(); got.Value(key{}) != "value" || got.Err() != nil {
			t.Errorf("context: value %v, err %v", got.Value(key{}), got.Err())
		}
		if v, _ := s.Labels().Value("a"); v != "b" || s.Owner() != 1 || s.Timeout() != 10*time.Second ||
			s.Token().ID != s.ID() {
			t.Errorf("labels %v, owner %v, timeout %v, token %v", s.Labels(), s.Owner(), s.Timeout(), s.Token())
		}
	})
}

func TestOpenWithoutAPromiseHasNoContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		other := mustOpen(t, cl, 10*time.Second)
		tok := other.Token()
		if other.Context().Err() != nil {
			t.Fatal("the context has ended while a promise holds")
		}
		_ = cl.Close()
		cl = newTestClient(t, c, c.endpoints(1, 1))
		c.set(func() { c.node(1).muteGrants = true })
		s, err := cl.Resume(t.Context(), tok)
		if err != nil {
			t.Fatal(err)
		}
		wantSafe(t, c, s, -1)
		if got := context.Cause(s.Context()); !errors.Is(got, ErrLapsed) {
			t.Errorf("cause: got %v, want %v", got, ErrLapsed)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if s.Context().Err() != nil {
			t.Error("the context has ended after the first touch")
		}
		wantStrings(t, kinds(s), "connected", "regained")
	})
}

func TestS5SuspensionDropsPromisesAndTouchesAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		w := newWallClock(cl.clock)
		s := mustOpen(t, cl, 30*time.Second)
		ctx := s.Context()
		time.Sleep(2500 * time.Millisecond)
		w.advance(time.Second) // explained by different rates of clocks
		wantSafe(t, c, s, promised(30*time.Second))
		w.advance(time.Second + 1)
		if got := s.SafeUntil(); !got.IsZero() {
			t.Errorf("SafeUntil after a suspension: got %v, want none", got)
		}
		time.Sleep(500 * time.Millisecond) // the loop's next reading, at 3 s
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("context lives on after a suspension")
		}
		wantSafe(t, c, s, 3*time.Second+promised(30*time.Second))
		wantStrings(t, c.node(1).record(), "0s open", "3s touch")
		wantStrings(t, kinds(s), "connected", "lapsed", "regained")
	})
}

func TestS5AnswerFromBeforeASuspensionPromisesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		w := newWallClock(cl.clock)
		s := mustOpen(t, cl, 30*time.Second)
		c.node(1).slow(200 * time.Millisecond)
		time.Sleep(10*time.Second + 100*time.Millisecond) // a touch is in flight
		w.advance(time.Minute)
		time.Sleep(100 * time.Millisecond)
		wantSafe(t, c, s, -1) // the answer has come
		time.Sleep(200 * time.Millisecond)
		// the answer to the touch sent when the suspension was noticed
		wantSafe(t, c, s, 10200*time.Millisecond+promised(30*time.Second))
	})
}

func TestDifferentTimeoutsAreTouchedByID(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		short, long := mustOpen(t, cl, 6*time.Second), mustOpen(t, cl, 30*time.Second)
		c.node(1).record()
		time.Sleep(2 * time.Second)
		wantSafe(t, c, short, 2*time.Second+promised(6*time.Second))
		wantSafe(t, c, long, 2*time.Second+promised(30*time.Second))
		got := c.node(1).record()
		slices.Sort(got)
		wantStrings(t, got, "2s touch [100000000000001]", "2s touch [100000000000002]")
	})
}

func TestTouchFailures(t *testing.T) {
	tests := []struct {
		err   error
		want  error // the error that ends the session; nil: it continues
		event string
	}{
		{session.MovedTo(session.Session{Attachment: 99, Instance: 9}), session.ErrMoved, "moved"},
		{session.ErrExpired, session.ErrExpired, "ended"},
		{session.ErrClosing, nil, ""},
		{session.ErrLagging, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 1, 1)
				s, other := mustOpen(t, cl, 12*time.Second), mustOpen(t, cl, 12*time.Second)
				c.set(func() { c.node(1).failures = map[session.ID]error{s.ID(): tt.err} })
				time.Sleep(4 * time.Second)
				wantSafe(t, c, other, 4*time.Second+promised(12*time.Second))
				if !errors.Is(s.Err(), tt.want) {
					t.Fatalf("Err: got %v, want %v", s.Err(), tt.want)
				}
				if tt.want != nil {
					<-s.Done()
					if got := kinds(s); got[len(got)-1] != tt.event {
						t.Errorf("events %q, want the last one to be %q", got, tt.event)
					}
					return
				}
				wantSafe(t, c, s, promised(12*time.Second)) // a promise never gets shorter
				c.set(func() { c.node(1).failures = nil })
				time.Sleep(time.Second) // the client touches again after a twelfth of the timeout
				wantSafe(t, c, s, 5*time.Second+promised(12*time.Second))
			})
		})
	}
}

func TestGoneEndsTheSessionWithItsCertificate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 10*time.Second)
		ctx := s.Context()
		c.expire(s.ID())
		<-s.Done()
		e, ok := errors.AsType[*session.ExpiredError](s.Err())
		if !ok || e.ID != s.ID() || e.Certificate == nil || e.Certificate.Cause != session.CauseExpired ||
			e.Certificate.Index != 99 {
			t.Fatalf("Err: got %v", s.Err())
		}
		if got := context.Cause(ctx); !errors.Is(got, session.ErrExpired) {
			t.Errorf("cause: got %v", got)
		}
		if err := s.Close(t.Context()); !errors.Is(err, session.ErrExpired) {
			t.Errorf("Close: got %v", err)
		}
	})
}

// A session that another client closed ends with an ExpiredError here: this client did not ask for the close.
func TestASessionClosedByAnotherClientExpires(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 10*time.Second)
		var cert session.Certificate
		c.set(func() { cert = c.end(s.ID(), session.CauseClosed) })
		c.node(1).broadcast(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Gone{Gone: &holdfastv1.Gone{
			Ids: []uint64{uint64(s.ID())}, Cause: holdfastv1.Cause_CAUSE_CLOSED,
			Certificate: []*holdfastv1.Certificate{wire.CertificateProto(cert)},
		}}})
		<-s.Done()
		if e, ok := errors.AsType[*session.ExpiredError](s.Err()); !ok || e.Certificate == nil ||
			e.Certificate.Cause != session.CauseClosed {
			t.Errorf("Err: got %v", s.Err())
		}
	})
}

func TestMovedEndsTheSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 10*time.Second)
		thief := newTestClient(t, c, c.endpoints(2, 2))
		stolen, err := thief.Resume(t.Context(), s.Token())
		if err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		if !errors.Is(s.Err(), session.ErrMoved) || s.Context().Err() == nil || stolen.Err() != nil {
			t.Errorf("Err: got %v, want %v; the other's %v", s.Err(), session.ErrMoved, stolen.Err())
		}
		wantStrings(t, kinds(s), "connected", "moved")
		_ = thief.Close()
		if !errors.Is(stolen.Err(), session.ErrClosed) {
			t.Errorf("Err after the client's end: got %v, want %v", stolen.Err(), session.ErrClosed)
		}
	})
}

func TestEventsDropTheOldest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 10*time.Hour)
		events := s.Events() // before the first event is read; TestEventsAreThereForALateReader asks later
		for range 100 {
			c.node(1).jeopardyEnded()
		}
		synctest.Wait()
		var last Event
		n := 0
		for len(events) > 0 {
			last = <-events
			n++
		}
		if n != eventBuffer || last.Dropped != 101-eventBuffer {
			t.Errorf("got %d events, %d dropped, want %d and %d", n, last.Dropped, eventBuffer, 101-eventBuffer)
		}
	})
}
