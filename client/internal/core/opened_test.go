package core

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// opening returns a core that holds a local session, with an open in flight on the connection that serves it.
func opening(t *testing.T, local bool) (l *Core, call *Call, r *window.Request) {
	t.Helper()
	l, cur, h := staged(t)
	h.closing, h.timeout, h.token.Local, l.now = nil, 10*time.Second, true, time.Now()
	cur.up = true
	call = new(Call)
	call.Want.Timeout, call.Want.Local, call.Want.Request = 10*time.Second, local, session.RequestID{1}
	l.opens[call] = struct{}{}
	r = l.sendOpen(cur, call)
	l.pump(cur)
	return l, call, r
}

// alsoAt sends the open of opening to another node too.
func alsoAt(t *testing.T, l *Core, address string) (*Conn, *window.Request) {
	t.Helper()
	l.cur.jeopardy, l.cur.failing = true, errJeopardy
	next := upConn(address)
	next.deadline = l.now.Add(time.Second)
	l.next, l.router.Moving = next, true
	l.tryNext(next)
	l.pump(next)
	for r := range next.window.InFlight() {
		if _, open := r.Body.(*openBody); open {
			return next, r
		}
	}
	t.Fatal("the open is not sent to the next node")
	return nil, nil
}

func answerOpen(l *Core, c *Conn, r *window.Request, s session.Session, promised time.Duration) {
	c.window.Take(r.Seq)
	s.Timeout = 10 * time.Second
	l.opened(c, r, r.Body.(*openBody).call, &holdfastv1.Opened{
		Session: wire.SessionProto(s), SafeFor: wire.PromiseProto(promised),
		Token: wire.TokenProto(session.Token{ID: s.ID, Attachment: s.Attachment, Local: s.Local}),
	})
}

// resumeAt has c grant the resume of a session.
func resumeAt(l *Core, c *Conn, id session.ID, owner session.Node, attachment uint64) {
	r := l.sessions[id].resuming
	l.pump(c)
	c.window.Take(r.Seq)
	l.resumed(c, r, r.Body.(*resumeBody), &holdfastv1.Resumed{
		Session: wire.SessionProto(
			session.Session{ID: id, Timeout: 10 * time.Second, Owner: owner, Attachment: attachment},
		),
		Token:   wire.TokenProto(session.Token{ID: id, Attachment: attachment}),
		SafeFor: wire.PromiseProto(9 * time.Second),
	})
}

// discarded returns the sessions closed through c because no caller waits for them.
func discarded(c *Conn) (ids []session.ID) {
	for _, r := range slices.AppendSeq(queued(c), c.window.InFlight()) {
		if d, ok := r.Body.(*discardBody); ok {
			ids = append(ids, d.token.ID)
		}
	}
	return ids
}

// An open may go through two connections. The first answer and a resume give the caller its session. The second answer
// then names the attachment that the caller holds, and must not close it.
func TestALateOpenAnswerKeepsTheHeldSession(t *testing.T) {
	l, call, first := opening(t, false)
	cur := l.cur
	next, repeat := alsoAt(t, l, "n2:7400")
	answerOpen(l, cur, first, session.Session{ID: 5, Owner: 1, Attachment: 20}, -1)
	l.step()
	resumeAt(l, next, 5, 2, 21)
	if o := l.answered(call); o == nil || o.Err != nil || o.Session.ID() != 5 {
		t.Fatalf("opened %+v", o)
	}
	answerOpen(l, next, repeat, session.Session{ID: 5, Owner: 2, Attachment: 21}, -1)
	if closed := discarded(next); len(closed) > 0 {
		t.Errorf("closes %v, although the caller holds it", closed)
	}
}

// One node opens a session and another one refuses the same open. The call gets the session.
func TestALateRefusalOfAnOpenThatIsDone(t *testing.T) {
	for _, err := range []error{&session.LimitError{Name: "max_sessions_per_connection"}, session.ErrOutcomeUnknown} {
		l, call, first := opening(t, false)
		cur := l.cur
		l.cfg.FailInFlight = true
		next, repeat := alsoAt(t, l, "n2:7400")
		answerOpen(l, cur, first, session.Session{ID: 5, Owner: 1, Attachment: 20}, -1)
		next.window.Take(repeat.Seq)
		l.failed(next, repeat, err)
		resumeAt(l, next, 5, 2, 21)
		if o := l.answered(call); o == nil || o.Err != nil || o.Session.ID() != 5 {
			t.Errorf("after %v: opened %+v", err, o)
		}
	}
}

// L1: a local open through two nodes opens two sessions. The client closes the one that no caller waits for.
func TestTheSecondOfTwoLocalSessionsIsClosed(t *testing.T) {
	l, _, first := opening(t, true)
	cur := l.cur
	l.router.Refused = true // the next node may be read-only too: the open goes there to find out
	next, repeat := alsoAt(t, l, "n2:7400")
	x, y := session.ID(1<<56|5), session.ID(2<<56|7)
	answerOpen(l, cur, first, session.Session{ID: x, Owner: 1, Attachment: 1, Local: true}, 9*time.Second)
	answerOpen(l, next, repeat, session.Session{ID: y, Owner: 2, Attachment: 1, Local: true}, 9*time.Second)
	if closed := discarded(next); !next.stray || !slices.Equal(closed, []session.ID{y}) {
		t.Errorf("closes %v, want %v; touches name sessions: %v", closed, y, next.stray)
	}
}

// The session of an open that was given up is closed, unless the caller has repeated the open: the repeat gets the
// session.
func TestAnAbandonedOpenLeavesTheSessionToItsRepeat(t *testing.T) {
	for name, repeated := range map[string]bool{"repeated": true, "given up for good": false} {
		t.Run(name, func(t *testing.T) {
			l, one, first := opening(t, false)
			cur := l.cur
			l.giveUp(one, context.DeadlineExceeded)
			two := new(Call)
			two.Want = one.Want
			var second *window.Request
			if repeated {
				l.opens[two] = struct{}{}
				second = l.sendOpen(cur, two)
				l.pump(cur)
			}
			s := session.Session{ID: 5, Owner: 1, Attachment: 20}
			answerOpen(l, cur, first, s, 9*time.Second)
			if repeated {
				answerOpen(l, cur, second, s, -1)
			}
			if closed := discarded(cur); len(closed) > 0 == repeated || !cur.stray {
				t.Errorf("closes %v; touches name sessions: %v", closed, cur.stray)
			}
		})
	}
}
