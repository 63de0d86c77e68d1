package core

import (
	"errors"
	"testing"
	"time"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// moving returns a core that leaves n1 for n2 with one session, which is being closed at n1, and whose callers want to
// know when the answer to a request in flight cannot come any more. The request of n2 is returned, too.
func moving(t *testing.T) (*Core, *Session, *window.Request) {
	t.Helper()
	l, c, h := staged(t)
	l.cfg.FailInFlight, l.now = true, time.Now()
	h.timeout = 10 * time.Second
	h.closing[0].h, h.closing[0].closes = h, true
	l.send(c, &window.Request{Body: &closeBody{h}})
	c.failing, l.next = errSilent, upConn("n2:7400")
	l.queueResume(l.next, h)
	return l, h, h.resuming
}

// The close has taken effect at the node that is left, and its answer is lost: the session ends once.
func TestASessionWhoseCloseWasInFlightEndsOnce(t *testing.T) {
	for _, refusal := range []error{&session.ExpiredError{ID: 1}, session.ErrBadCredential} {
		l, h, r := moving(t)
		call := h.closing[0]
		l.resumeRefused(l.next, r, &resumeBody{h: h}, refusal)
		if len(l.effects.Ended) != 1 || len(l.effects.Events) != 1 {
			t.Errorf("%v: ended %d times, told %d times, want once", refusal, len(l.effects.Ended), len(l.effects.Events))
		}
		if a := l.answered(call); a == nil || !errors.Is(a.Err, session.ErrOutcomeUnknown) {
			t.Errorf("%v: the caller is told %+v, want that the outcome is unknown", refusal, a)
		}
	}
}

// The node that is moved to serves a session that its caller has let go of by that: touches there leave it out.
func TestASessionWhoseCloseWasInFlightIsNotServedAgain(t *testing.T) {
	l, h, r := moving(t)
	g := session.Session{ID: 1, Timeout: h.timeout, Owner: 2, Attachment: 10, OpenedIndex: 1, OpenedAt: session.Epoch()}
	l.resumed(l.next, r, &resumeBody{h: h}, &holdfastv1.Resumed{
		Session: wire.SessionProto(g), Token: wire.TokenProto(session.Token{ID: 1, Attachment: 10}),
		SafeFor: wire.PromiseProto(9 * time.Second),
	})
	if h.on != nil || len(l.effects.Granted) != 0 || !l.cur.stray {
		t.Errorf("on %v, %d grants: want a session that is over", h.on, len(l.effects.Granted))
	}
}

// An open that is in flight at two nodes, and whose caller was told that its outcome is unknown, leaves no session that
// the client keeps alive for nobody.
func TestAnOpenInFlightAtTwoNodesIsNotHeldForNobody(t *testing.T) {
	l, h, _ := moving(t)
	h.closing = nil
	call := &Call{Want: Want{Timeout: 10 * time.Second}}
	l.opens[call] = struct{}{}
	l.send(l.cur, l.sendOpen(l.cur, call))
	r := l.sendOpen(l.next, call)
	l.send(l.next, r)
	g := session.Session{ID: 2, Timeout: h.timeout, Owner: 2, Attachment: 10, OpenedIndex: 1, OpenedAt: session.Epoch()}
	l.opened(l.next, r, call, &holdfastv1.Opened{
		Session: wire.SessionProto(g), Token: wire.TokenProto(session.Token{ID: 2, Attachment: 10}),
		SafeFor: wire.PromiseProto(9 * time.Second),
	})
	if a := l.answered(call); a == nil || !errors.Is(a.Err, session.ErrOutcomeUnknown) {
		t.Errorf("the caller is told %+v, want that the outcome is unknown", a)
	}
	if l.sessions[2] != nil || !l.cur.stray {
		t.Error("the client holds a session that nobody has")
	}
}
