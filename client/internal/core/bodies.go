package core

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// body is one of *openBody, *resumeBody, *resumesBody, *upgradeBody, *closeBody, *discardBody, *touchBody, *writeBody,
// *readBody, *watchBody and *unwatchBody.
type body interface {
	window.Body
	// message returns what is sent under seq.
	message(l *ledger, seq uint64) *holdfastv1.ClientMessage
}

type openBody struct {
	call *Call
	on   *Conn
}

type resumeBody struct {
	h     *Session
	on    *Conn
	local bool // sent with a local token
}

// upgradeBody asks for a session to be made global.
type upgradeBody struct{ h *Session }

type closeBody struct{ h *Session }

// discardBody closes a session nobody waits for any more. One try is enough, because the session expires by itself.
type discardBody struct{ token session.Token }

type touchBody struct {
	// targets are named in the touch; nil means all that were served here when it was sent.
	targets []*Session
	// smallest timeout of those touched.
	smallest time.Duration
	// local: all of them are local sessions.
	local bool
	// sign: it only asks for a sign of life.
	sign bool
	// on is where it goes.
	on *Conn
}

// nobody is an id of node 0, which no session has. A sign of life is asked for with it when c serves no session: an
// empty touch would touch sessions that the client does not hold.
const nobody session.ID = 1

// Wanted is false once the caller was answered, or the open goes through another connection.
func (b *openBody) Wanted() bool { return !b.call.settled && b.call.on == b.on }

// Wanted is false once a newer resume is under way, or none is needed.
func (b *resumeBody) Wanted() bool { return b.h.resuming != nil && b.h.resuming.Body == b }

// Wanted is false when nobody waits for it, or no node serves the session: it is asked for again there.
func (b *upgradeBody) Wanted() bool { return len(b.h.upgrading) > 0 && b.h.on != nil }

// Wanted is false when nobody waits for it, or no node serves the session: it is asked for again there.
func (b *closeBody) Wanted() bool { return len(b.h.closing) > 0 && b.h.on != nil }

// Wanted is true.
func (b *discardBody) Wanted() bool { return true }

// Wanted is true.
func (b *touchBody) Wanted() bool { return true }

func (b *openBody) message(l *ledger, seq uint64) *holdfastv1.ClientMessage {
	b.call.sends++
	want := &b.call.Want
	open := &holdfastv1.Open{
		Seq: seq, Timeout: durationpb.New(want.Timeout), Labels: want.Labels, RequestId: want.Request[:],
		Local: want.Local, Instance: l.cfg.Instance,
	}
	return &holdfastv1.ClientMessage{
		Trace: b.call.Trace.Bytes(), Message: &holdfastv1.ClientMessage_Open{Open: open},
	}
}

// message takes a new attempt each time, so that the answer to the attempt that is applied last is the one that counts.
// It names the newest attachment that this client has been told of (M1).
func (b *resumeBody) message(l *ledger, seq uint64) *holdfastv1.ClientMessage {
	l.attempts++
	b.local = b.h.token.Local
	m := &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: &holdfastv1.Resume{
		Seq: seq, Token: wire.TokenProto(b.h.token), Instance: l.cfg.Instance, Attempt: l.attempts,
		SeenIndex: l.demand(),
	}}}
	if caller := b.h.joining; caller != nil { // later resumes have no caller
		m.Trace = caller.Trace.Bytes()
	}
	return m
}

func (b *upgradeBody) message(_ *ledger, seq uint64) *holdfastv1.ClientMessage {
	b.h.upgradeSent = true
	for _, call := range b.h.upgrading {
		call.last = session.ErrOutcomeUnknown // until there is an answer
	}
	return &holdfastv1.ClientMessage{
		Trace: b.h.upgrading[0].Trace.Bytes(), // those who came later wait for the same upgrade
		Message: &holdfastv1.ClientMessage_Upgrade{
			Upgrade: &holdfastv1.Upgrade{Seq: seq, Token: wire.TokenProto(b.h.token)},
		},
	}
}

func (b *closeBody) message(_ *ledger, seq uint64) *holdfastv1.ClientMessage {
	b.h.closeSent = true
	m := closeMessage(seq, b.h.token)
	m.Trace = b.h.closing[0].Trace.Bytes() // those who came later wait for the same close
	return m
}

func (b *discardBody) message(_ *ledger, seq uint64) *holdfastv1.ClientMessage {
	return closeMessage(seq, b.token)
}

func (b *touchBody) message(l *ledger, seq uint64) *holdfastv1.ClientMessage {
	touch := &holdfastv1.Touch{Seq: seq}
	for _, h := range b.targets {
		touch.Ids = append(touch.Ids, uint64(h.id))
	}
	if b.sign && len(touch.Ids) == 0 {
		touch.Ids = append(touch.Ids, uint64(nobody))
	}
	l.acknowledge(b.on, touch)
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: touch}}
}

func closeMessage(seq uint64, t session.Token) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Close{
		Close: &holdfastv1.Close{Seq: seq, Token: wire.TokenProto(t)},
	}}
}

// release leaves what r asks for to the next connection.
func release(r *window.Request) {
	switch b := r.Body.(type) {
	case *resumeBody:
		if b.h.resuming == r {
			b.h.resuming = nil
		}
	case *openBody:
		if b.call.on == b.on {
			b.call.on = nil
		}
	}
}
