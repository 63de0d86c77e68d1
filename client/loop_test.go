package client

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// A touch may have been served before a session was attached on its stream: its answer says nothing of that session.
func TestTouchSentBeforeTheAttachmentPromisesNothing(t *testing.T) {
	l, c, h := staged(t)
	h.closing, h.timeout = nil, 10*time.Second
	l.look()
	answer := &holdfastv1.Touched{SafeFor: durationpb.New(9 * time.Second)}
	body := &touchBody{smallest: h.timeout}
	l.touched(c, &request{seq: h.since, sent: l.now, body: body}, body, answer)
	if got := h.s.SafeUntil(); !got.IsZero() {
		t.Fatalf("safe until %v by a touch from before the attachment", got)
	}
	l.touched(c, &request{seq: h.since + 1, sent: l.now, body: body}, body, answer)
	if got, want := h.s.SafeUntil(), l.now.Add(9*time.Second); !got.Equal(want) {
		t.Fatalf("safe until %v by a later touch, want %v", got, want)
	}
}

// The answer to a resume of a session that is not held any more leaves the node serving it: touches must leave it out.
func TestResumeOfASessionNotHeldMakesTouchesNameTheirs(t *testing.T) {
	l, c, h := staged(t)
	delete(l.sessions, h.s.id)
	l.resumed(c, &request{}, &resumeBody{h: h}, &holdfastv1.Resumed{})
	if !c.stray {
		t.Error("touches without ids would keep the session alive")
	}
}

// A node that is tried and refuses leaves the session free to be resumed where it was.
func TestRefusedCandidateLeavesNoResumeBehind(t *testing.T) {
	l, c, h := staged(t)
	l.next = &conn{Target: route.Target{Server: "n2:7400", Address: "n2:7400"}, cancel: func() {}, up: true}
	h.on = nil
	h.resuming = &request{seq: 1, body: &resumeBody{h: h}}
	l.resumeRefused(l.next, h.resuming, &resumeBody{h: h}, session.ErrNoLeader)
	if l.next != nil || len(c.queue) != 1 || h.resuming != c.queue[0] {
		t.Errorf("next %v, queue %v: want the session resumed through the connection there is", l.next, c.queue)
	}
}

// A client that needs nothing, and is owed an answer by a node that has fallen silent, waits for something to happen:
// it does not look again and again.
func TestAnIdleClientThatIsOwedAnAnswerSleeps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, c, _ := staged(t)
		clear(l.sessions)
		c.failing, c.touchAt = nil, time.Time{}
		c.inflight = map[uint64]*request{1: {seq: 1, body: &discardBody{}}}
		l.look()
		c.heard = l.now
		time.Sleep(2 * patience)
		if at := l.turn(t.Context(), nil); !at.IsZero() && !at.After(l.now) {
			t.Errorf("wakes %v ago, at once again", l.now.Sub(at))
		}
	})
}

func TestWindowBoundsWhatIsOut(t *testing.T) {
	l, c, _ := staged(t)
	c.up, c.out = true, make(chan *holdfastv1.ClientMessage, requestWindow+touchWindow)
	for range 2 * requestWindow {
		c.queue = append(c.queue, &request{body: &discardBody{}})
	}
	for range 2 * touchWindow {
		l.sendTouch(c, &touchBody{})
	}
	go func() { l.pump(c); close(c.out) }()
	sent := 0
	for range c.out {
		sent++
	}
	if sent != requestWindow+touchWindow || len(c.queue) != requestWindow {
		t.Errorf("%d sent, %d wait, want %d and %d", sent, len(c.queue), requestWindow+touchWindow, requestWindow)
	}
}

// The loop may be late, callers are told the truth all the same.
func TestContextEndsWithThePromiseWithoutTheLoop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, _, h := staged(t)
		h.s.promise(time.Now().Add(time.Second), 0)
		ctx := h.s.Context()
		if ctx.Err() != nil {
			t.Fatal("no context under a promise")
		}
		time.Sleep(time.Second)
		if !h.s.SafeUntil().IsZero() || h.s.Context().Err() == nil || ctx.Err() == nil {
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
