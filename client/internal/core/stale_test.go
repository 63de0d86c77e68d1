package core

import (
	"errors"
	"testing"
	"time"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// A close names an attachment. The refusal of a former attachment says nothing of the present one: it neither ends the
// session nor resumes it, since the next close would be refused the same way.
func TestRefusedCloseOfAFormerAttachmentIsIgnored(t *testing.T) {
	l, c, h := staged(t)
	l.closeRefused(c, &window.Request{Seq: 5, Body: &closeBody{h}}, h, session.ErrMoved)
	if !l.holds(h) || h.on != c || h.resuming != nil {
		t.Errorf("held %v, served %v, resuming %v; want held and served as before", l.holds(h), h.on == c,
			h.resuming != nil)
	}
	l.closeRefused(c, &window.Request{Seq: 6, Body: &closeBody{h}}, h,
		session.MovedTo(session.Session{Attachment: 10, Instance: l.cfg.Instance + 1}))
	if !errors.Is(h.err, session.ErrMoved) {
		t.Errorf("after the close of the present attachment was refused: %v, want that the session has moved", h.err)
	}
}

// A lagging node refuses a resume that may have taken effect. The Moved that follows names the instance that resumed
// the session (M1).
func TestM1OwnResumeThatTookEffectLate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		by    func(own uint64) uint64
		holds bool
	}{
		{"by this client's own", func(own uint64) uint64 { return own }, true},
		{"by another's", func(own uint64) uint64 { return own + 1 }, false},
		{"by nobody knows whose", func(uint64) uint64 { return 0 }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, c, h := staged(t)
			l.next = upConn("n2:7400")
			b := &resumeBody{h: h}
			h.closing, h.resuming = nil, &window.Request{Seq: 1, Body: b}
			b.message(&l.ledger, 1)
			l.resumeRefused(l.next, h.resuming, b, session.ErrLagging)
			l.movedAll(c, &holdfastv1.Moved{
				Ids: []uint64{uint64(h.id)}, Instances: []uint64{tt.by(l.cfg.Instance)},
			})
			if holds := l.holds(h) && h.err == nil; holds != tt.holds || (h.resuming != nil) != tt.holds {
				t.Errorf("held %v, resumed again %v, ended with %v; want %v", holds, h.resuming != nil, h.err,
					tt.holds)
			}
		})
	}
}

// After a fail-over every node is in jeopardy until the new leader's first good round, and serves nevertheless. A
// client that left such a node at once would move all its sessions from node to node.
func TestANodeInJeopardyGetsOneSecond(t *testing.T) {
	l, former, h := staged(t)
	h.timeout, h.closing = 12*time.Second, nil
	l.now = time.Now()
	l.next = upConn("n2:7400")
	next := l.next
	next.deadline = l.now.Add(4 * time.Second)
	l.router.Moving = true
	l.inJeopardy(next, nil)
	if l.next != next || !next.deadline.Equal(l.now.Add(time.Second)) {
		t.Fatalf("still tried: %v, for %v; want one second more", l.next == next,
			next.deadline.Sub(l.now))
	}
	l.served(next)
	if l.cur != next || l.cur == former {
		t.Error("the node that has served is not the client's present one")
	}
	l, _, h = staged(t)
	h.timeout, l.now = 12*time.Second, time.Now()
	l.next = upConn("n2:7400")
	l.router.Moving = true
	l.inJeopardy(l.next, nil)
	l.now = l.now.Add(time.Second)
	l.checkConns()
	if l.next != nil {
		t.Error("a node in jeopardy that does not answer is still tried after a second")
	}
}
