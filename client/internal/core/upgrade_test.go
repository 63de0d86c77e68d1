package core

import (
	"testing"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// L6: a node that does not know a local session says nothing of the global session that it has become.
func TestL6AnUnknownLocalSessionDoesNotEndTheGlobalOne(t *testing.T) {
	for name, served := range map[string]bool{"served where it was": true, "served nowhere": false} {
		t.Run(name, func(t *testing.T) {
			l, c, h := staged(t)
			h.closing, h.timeout, l.now = nil, 10*time.Second, time.Now()
			h.token.Local, l.router.Moving = true, true
			l.next = upConn("n2:7400")
			l.queueResume(l.next, h)
			r := h.resuming
			r.Seq = 1
			r.Body.(*resumeBody).message(&l.ledger, 1)
			h.token = session.Token{ID: 1, Attachment: 10} // c has told that the session is global
			if !served {
				h.on = nil
				l.drop(c, nil)
			}
			l.resumeRefused(l.next, r, r.Body.(*resumeBody), &session.ExpiredError{ID: 1, LocalTo: 1})
			if err := h.err; err != nil || h.resuming == nil || h.resuming == r || !h.askedAt(l.next) {
				t.Errorf("the session ended with %v; asked for again: %v", err, h.resuming != nil && h.resuming != r)
			}
		})
	}
}

// A grant of the local session that arrives after the session has become global does not make it local again.
func TestALateGrantOfTheLocalSession(t *testing.T) {
	l, _, h := staged(t)
	h.closing, h.timeout, l.now = nil, 10*time.Second, time.Now()
	h.token.Local = true
	home := upConn("n1:7400")
	l.next, l.router.Moving = home, true
	l.queueResume(home, h)
	r := h.resuming
	r.Seq = 1
	r.Body.(*resumeBody).message(&l.ledger, 1)
	global := session.Token{ID: 1, Attachment: 10}
	h.token = global
	local := session.Session{ID: 1, Timeout: 10 * time.Second, Owner: 1, Attachment: 2, Local: true}
	l.resumed(home, r, r.Body.(*resumeBody), &holdfastv1.Resumed{
		Session: wire.SessionProto(local), Token: wire.TokenProto(session.Token{ID: 1, Attachment: 2, Local: true}),
		SafeFor: wire.PromiseProto(9 * time.Second),
	})
	if h.on != home || h.token != global {
		t.Errorf("the token is %+v, want %+v; served by the new connection: %v", h.token, global, h.on == home)
	}
}
