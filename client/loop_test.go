package client

import (
	"errors"
	"testing"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// The loop may be late, callers are told the truth all the same.
func TestContextEndsWithThePromiseWithoutTheLoop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSession(t.Context(), &loop{clock: newClock()})
		s.promise(time.Now().Add(time.Second), 0)
		ctx := s.Context()
		if ctx.Err() != nil {
			t.Fatal("no context under a promise")
		}
		time.Sleep(time.Second)
		if !s.SafeUntil().IsZero() || s.Context().Err() == nil || ctx.Err() == nil {
			t.Error("a promise that has run out is told")
		}
	})
}

// A session that somebody else closed is no wish of this client's.
func TestClosedBySomebodyElse(t *testing.T) {
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
