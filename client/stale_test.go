package client

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// staged returns a loop that nothing runs, holding one session that a connection serves since its request 5, attached by
// attempt 2.
func staged(t *testing.T) (*loop, *conn, *held) {
	t.Helper()
	cl, err := New(Config{Endpoints: []string{"n1:7400"}})
	if err != nil {
		t.Fatal(err)
	}
	l := newLoop(cl.cfg, cl.clock, cl.dice)
	c := &conn{target: target{"n1:7400", "n1:7400"}, cancel: func() {}, inflight: make(map[uint64]*request)}
	token := session.Token{ID: 1, Attachment: 9}
	h := &held{s: newSession(t.Context(), l, token), token: token, on: c, since: 5, attached: 2}
	h.closing = []*call{newCall(t.Context())}
	l.cur, l.sessions[1] = c, h
	return l, c, h
}

// A close names an attachment. That a former one is over says nothing of the present one: it neither ends the session
// nor has it resumed again, which would put the close that follows in the same place.
func TestRefusedCloseOfAFormerAttachmentIsIgnored(t *testing.T) {
	l, c, h := staged(t)
	l.closeRefused(c, &request{seq: 5, body: &closeBody{h}}, h, session.ErrMoved)
	if !l.holds(h) || h.on != c || h.resuming != nil {
		t.Errorf("held %v, served %v, resuming %v; want held and served as before", l.holds(h), h.on == c, h.resuming != nil)
	}
	l.closeRefused(c, &request{seq: 6, body: &closeBody{h}}, h, session.ErrMoved)
	if !errors.Is(h.s.Err(), session.ErrMoved) {
		t.Errorf("after the refusal of the present attachment's close: %v, want that the session has moved", h.s.Err())
	}
}

// A node that lags answers a resume that may have taken effect: the Moved that follows tells of it (M1).
func TestM1LaggingResumeIsUnsettled(t *testing.T) {
	l, c, h := staged(t)
	l.next = &conn{target: target{"n2:7400", "n2:7400"}, cancel: func() {}, up: true}
	h.resuming = &request{seq: 1, body: &resumeBody{h: h, attempt: 3}}
	l.resumeRefused(l.next, h.resuming, &resumeBody{h: h, attempt: 3}, session.ErrLagging)
	if h.unsettled != 3 {
		t.Fatalf("unsettled is attempt %d, want 3", h.unsettled)
	}
	l.moved(h, c)
	if !l.holds(h) || h.s.Err() != nil {
		t.Errorf("the session has ended with %v, want that it is resumed again", h.s.Err())
	}
}

// After a fail-over every node is in jeopardy until it hears of the new leader's first good round, and serves all the
// same. A client that went on at their word would have each of them move all of its sessions.
func TestNodeInJeopardyIsGivenAMoment(t *testing.T) {
	l, former, h := staged(t)
	h.timeout, h.closing = 12*time.Second, nil
	l.now = time.Now()
	l.next = &conn{target: target{"n2:7400", "n2:7400"}, cancel: func() {}, up: true, deadline: l.now.Add(4 * time.Second)}
	next := l.next
	l.mover.moving = true
	l.inJeopardy(next, nil)
	if l.next != next || !next.deadline.Equal(l.now.Add(time.Second)) {
		t.Fatalf("tried %v, until %v; want that the node is tried for a second more", l.next == next, next.deadline.Sub(l.now))
	}
	l.served(next)
	if l.cur != next || l.cur == former {
		t.Error("the node has served, and is not the one that serves")
	}
	l, _, h = staged(t)
	h.timeout, l.now = 12*time.Second, time.Now()
	l.next = &conn{target: target{"n2:7400", "n2:7400"}, cancel: func() {}, up: true}
	l.mover.moving = true
	l.inJeopardy(l.next, nil)
	l.now = l.now.Add(time.Second)
	l.checkConns()
	if l.next != nil {
		t.Error("a node in jeopardy that does not answer is tried still")
	}
}
