package session

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// A node may have served a touch before it attached a session to the stream. The answer promises that session nothing.
func TestTouchSentBeforeTheAttachmentPromisesNothing(t *testing.T) {
	s := newStage(t)
	now, since := s.conns.Now(), s.h.attachment.since
	answer := &holdfastv1.Touched{SafeFor: durationpb.New(9 * time.Second)}
	body := &touchBody{s: s.Manager, smallest: s.h.timeout}
	s.touched(s.c, &window.Request{Seq: since, Sent: now, Body: body}, body, answer)
	if got := s.h.Until(); !got.IsZero() {
		t.Fatalf("safe until %v by a touch from before the attachment", got)
	}
	s.touched(s.c, &window.Request{Seq: since + 1, Sent: now, Body: body}, body, answer)
	if got, want := s.h.Until(), now.Add(9*time.Second); !got.Equal(want) {
		t.Fatalf("safe until %v by a later touch, want %v", got, want)
	}
}

// The timer of a session may find the end of a promise before a turn renews it. The events then report both the lapse
// and the new promise.
func TestALapseSeenByTheTimerFirstIsReported(t *testing.T) {
	s := newStage(t)
	begun := s.conns.Now()
	s.recordPromise(s.h, &window.Request{Sent: begun}, time.Second, s.h.timeout)
	if s.recordPromise(s.h, &window.Request{Sent: begun}, 5*time.Second, s.h.timeout) {
		t.Fatal("recordPromise reports that there was no promise before the second one")
	}
	s.Missed(s.h)
	e := s.Effects.Events
	if len(e) != 2 || e[0].Kind != KindLapsed || !e[0].SafeUntil.IsZero() || e[1].Kind != KindRegained ||
		!e[1].SafeUntil.Equal(begun.Add(5*time.Second)) {
		t.Errorf("events %+v, want a lapse and its end", e)
	}
	s.reset()
	s.h.promise.until = time.Time{}
	if s.Missed(s.h); len(s.Effects.Events) > 0 {
		t.Errorf("events %+v of a session without a promise, want none", s.Effects.Events)
	}
}

// A delayed touch is sent no later than the touch that is due anyway: a session with a short timeout may have been
// attached meanwhile.
func TestADelayedTouchIsNotLate(t *testing.T) {
	for hint, want := range map[time.Duration]time.Duration{
		20 * time.Second: time.Second, 500 * time.Millisecond: 500 * time.Millisecond,
	} {
		s := newStage(t)
		now := s.conns.Now()
		s.c.Touches.At = now.Add(time.Second)
		s.touchDeferred(s.c, &session.LimitError{Name: "max_touches_per_second", RetryAfter: hint})
		if got := s.c.Touches.At.Sub(now); got < want || got > want+testMinBackoff {
			t.Errorf("asked to wait %v, touched after %v, want %v", hint, got, want)
		}
	}
}

// An overloaded node names a retry time. A resume whose promise still lasts comes back after half of the rest at most.
// A resume whose promise has lapsed waits for the retry time: many such clients would otherwise overload the node for
// ever.
func TestAResumeWithoutAPromiseWaitsForTheNamedMoment(t *testing.T) {
	const hint = 8 * time.Second
	for name, tt := range map[string]struct {
		until          func(now time.Time) time.Time
		earliest, last time.Duration
	}{
		"promised": {
			func(now time.Time) time.Time { return now.Add(6 * time.Second) }, 3 * time.Second, 3 * time.Second,
		},
		"just lapsed":    {func(now time.Time) time.Time { return now }, hint, hint + testTimeout/conn.ConnectPart},
		"lapse reported": {func(time.Time) time.Time { return time.Time{} }, hint, hint + testTimeout/conn.ConnectPart},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.h.promise.until = tt.until(s.conns.Now())
			for n := 1; n <= 40; n++ {
				b := &resumeBody{s: s.Manager, h: s.h}
				got := b.RetryIn(n, &session.LimitError{RetryAfter: hint})
				if got < tt.earliest || got > tt.last {
					t.Errorf("refusal %d: comes back after %v, want %v to %v", n, got, tt.earliest, tt.last)
				}
			}
		})
	}
}
