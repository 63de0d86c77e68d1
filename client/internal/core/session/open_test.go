package session

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// opening returns a manager that holds a local session, with an open in flight on the connection that serves it.
func opening(t *testing.T, local bool) (s *stage, call *Call, r *window.Request) {
	t.Helper()
	s = newStage(t)
	s.h.token.Local = true
	call = &Call{Want: Want{Spec: session.Spec{Timeout: testTimeout}, Local: local, Request: session.RequestID{1}}}
	s.Open(call)
	s.conns.Pump(s.c)
	return s, call, s.openOn(s.c)
}

// openOn returns the newest open in flight on c.
func (s *stage) openOn(c *conn.Conn) (open *window.Request) {
	s.t.Helper()
	for r := range c.Window.InFlight() {
		if _, ok := r.Body.(*openBody); ok && (open == nil || r.Seq > open.Seq) {
			open = r
		}
	}
	if open == nil {
		s.t.Fatal("no open is in flight")
	}
	return open
}

// alsoAtNext sends the open of opening to another node too.
func (s *stage) alsoAtNext() (*conn.Conn, *window.Request) {
	s.t.Helper()
	s.conns.Receive(s.c, &holdfastv1.ServerMessage{
		Message: &holdfastv1.ServerMessage_Jeopardy{Jeopardy: new(holdfastv1.Jeopardy)},
	})
	next := s.connect()
	return next, s.openOn(next)
}

func (s *stage) answerOpen(c *conn.Conn, r *window.Request, g session.Session, promise time.Duration) {
	g.Timeout = testTimeout
	s.Receive(c, &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{Opened: &holdfastv1.Opened{
		Seq: r.Seq, Session: wire.SessionProto(g), SafeFor: wire.PromiseProto(promise),
		Token: wire.TokenProto(session.Token{ID: g.ID, Attachment: g.Attachment, Local: g.Local}),
	}}})
}

// An open may go through two connections. The first answer and a resume give the caller its session. The second answer
// then names the attachment that the caller holds, and must not close it.
func TestALateOpenAnswerKeepsTheHeldSession(t *testing.T) {
	s, call, first := opening(t, false)
	next, repeat := s.alsoAtNext()
	s.answerOpen(s.c, first, session.Session{ID: 5, Owner: 1, Attachment: 20}, -1)
	s.conns.Advance()
	s.resumedAt(next, s.sessions[5], session.Session{ID: 5, Owner: 2, Attachment: 21}, 9*time.Second)
	if o := s.answered(call); o == nil || o.Err != nil || o.Session.ID() != 5 {
		t.Fatalf("opened %+v", o)
	}
	s.answerOpen(next, repeat, session.Session{ID: 5, Owner: 2, Attachment: 21}, -1)
	if closed := discarded(next); len(closed) > 0 {
		t.Errorf("closes %v, although the caller holds it", closed)
	}
}

// One node opens a session and another refuses the same open. The call gets the session.
func TestALateRefusalOfAnOpenThatIsDone(t *testing.T) {
	for _, err := range []error{&session.LimitError{Name: "max_sessions_per_connection"}, session.ErrOutcomeUnknown} {
		s, call, first := opening(t, false)
		s.cfg.FailInFlight = true
		next, repeat := s.alsoAtNext()
		s.answerOpen(s.c, first, session.Session{ID: 5, Owner: 1, Attachment: 20}, -1)
		next.Window.Remove(repeat.Seq)
		s.Refused(next, repeat, err)
		s.resumedAt(next, s.sessions[5], session.Session{ID: 5, Owner: 2, Attachment: 21}, 9*time.Second)
		if o := s.answered(call); o == nil || o.Err != nil || o.Session.ID() != 5 {
			t.Errorf("after %v: opened %+v", err, o)
		}
	}
}

// L1: a local open through two nodes opens two sessions. The client closes the one that no caller waits for.
func TestTheSecondOfTwoLocalSessionsIsClosed(t *testing.T) {
	s, _, first := opening(t, true)
	s.conns.Receive(s.c, &holdfastv1.ServerMessage{
		Message: &holdfastv1.ServerMessage_Jeopardy{Jeopardy: new(holdfastv1.Jeopardy)},
	})
	s.connect()
	s.conns.FailCandidate(session.ErrReadOnly) // the next node may be read-only too: the open goes there to find out
	next := s.connect()
	repeat := s.openOn(next)
	x, y := session.ID(1<<56|5), session.ID(2<<56|7)
	s.answerOpen(s.c, first, session.Session{ID: x, Owner: 1, Attachment: 1, Local: true}, 9*time.Second)
	s.answerOpen(next, repeat, session.Session{ID: y, Owner: 2, Attachment: 1, Local: true}, 9*time.Second)
	if closed := discarded(next); !next.Touches.Named || !slices.Equal(closed, []session.ID{y}) {
		t.Errorf("closes %v, want %v; touches name sessions: %v", closed, y, next.Touches.Named)
	}
}

// The session of an open that was given up is closed, unless the caller has repeated the open: the repeat gets the
// session.
func TestAnAbandonedOpenLeavesTheSessionToItsRepeat(t *testing.T) {
	for name, repeated := range map[string]bool{"repeated": true, "given up for good": false} {
		t.Run(name, func(t *testing.T) {
			s, one, first := opening(t, false)
			s.giveUp(one, context.DeadlineExceeded)
			two := &Call{Want: one.Want}
			var second *window.Request
			if repeated {
				s.Open(two)
				s.conns.Pump(s.c)
				second = s.openOn(s.c)
			}
			g := session.Session{ID: 5, Owner: 1, Attachment: 20}
			s.answerOpen(s.c, first, g, 9*time.Second)
			if repeated {
				s.answerOpen(s.c, second, g, -1)
			}
			if closed := discarded(s.c); len(closed) > 0 == repeated || !s.c.Touches.Named {
				t.Errorf("closes %v; touches name sessions: %v", closed, s.c.Touches.Named)
			}
		})
	}
}
