package session

import (
	"cmp"
	"math"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

type openBody struct {
	s    *Manager
	call *Call
	on   *conn.Conn
}

type resumeBody struct {
	s     *Manager
	h     *Session
	on    *conn.Conn
	local bool // sent with a local token
}

type upgradeBody struct{ h *Session }

type closeBody struct{ h *Session }

// discardBody closes a session that no caller waits for. One try is enough, because the session expires on its own.
type discardBody struct{ token session.Token }

type touchBody struct {
	s *Manager
	// targets are named in the touch; nil for all sessions that the connection served when the touch was sent.
	targets []*Session
	// smallest timeout of the touched sessions.
	smallest time.Duration
	// local: all are local sessions.
	local bool
	// sign: the touch only asks for a sign of life.
	sign bool
	on   *conn.Conn
}

// noSession is an id of node 0, which no session has. A sign of life on a connection without sessions names this id: a
// touch without ids would touch sessions that the client does not hold.
const noSession session.ID = 1

// Wanted is false once the caller has its answer, or the open has moved to another connection.
func (b *openBody) Wanted() bool { return !b.call.answered && b.call.on == b.on }

// Wanted is false once a newer resume is pending, or none is needed.
func (b *resumeBody) Wanted() bool {
	resuming := b.h.attachment.resuming
	return resuming != nil && resuming.Body == b
}

// Wanted is false if no caller waits, or no node serves the session: another upgrade follows each attachment.
func (b *upgradeBody) Wanted() bool {
	return len(b.h.callers.upgrading) > 0 && b.h.attachment.on != nil
}

// Wanted is false if no caller waits, or no node serves the session: another close follows each attachment.
func (b *closeBody) Wanted() bool { return len(b.h.callers.closing) > 0 && b.h.attachment.on != nil }

// Wanted is true.
func (b *discardBody) Wanted() bool { return true }

// Wanted is true.
func (b *touchBody) Wanted() bool { return true }

// Message counts the sends: the answer to a repeated open says less.
func (b *openBody) Message(seq uint64) *holdfastv1.ClientMessage {
	b.call.sends++
	want := &b.call.Want
	open := &holdfastv1.Open{
		Seq: seq, RequestId: want.Request[:], Local: want.Local, Instance: b.s.cfg.Instance,
	}
	open.Timeout, open.Labels = wire.SpecProto(&want.Spec)
	return &holdfastv1.ClientMessage{
		Trace: b.call.Trace.Bytes(), Message: &holdfastv1.ClientMessage_Open{Open: open},
	}
}

// Message uses a new attempt each time, so that the answer to the attempt that is applied last counts. It names the
// newest attachment that this client knows (M1 a resume is a move).
func (b *resumeBody) Message(seq uint64) *holdfastv1.ClientMessage {
	b.s.attempts++
	b.local = b.h.token.Local
	m := &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: &holdfastv1.Resume{
		Seq: seq, Token: wire.TokenProto(b.h.token), Instance: b.s.cfg.Instance, Attempt: b.s.attempts,
		SeenIndex: b.s.conns.MinIndex(),
	}}}
	if caller := b.h.callers.joining; caller != nil { // later resumes have no caller
		m.Trace = caller.Trace.Bytes()
	}
	return m
}

// Batches reports whether the resume may share a message with others.
func (b *resumeBody) Batches() bool { return !b.h.token.Local && b.h.callers.joining == nil }

// Batch returns the body of a message for several resumes.
func (b *resumeBody) Batch(members []*window.Request) conn.Body { return &resumesBody{b.s, members} }

// RetryIn returns the wait before the n-th retry. A resume whose promise lasts waits for half of the rest at most,
// because the node's queue may have become shorter. Once the promise has lapsed it waits until the moment that the node
// named: that node is overloaded.
func (b *resumeBody) RetryIn(n int, err error) time.Duration {
	if b.h.callers.joining != nil {
		return b.s.cfg.Jitter.Wait(n, err)
	}
	soon := b.s.cfg.Jitter.BackoffBelow(n, cmp.Or(b.h.timeout/conn.ConnectPart, math.MaxInt64))
	wait := route.Hint(err) + soon
	if rest := b.h.promise.until.Sub(b.s.conns.Now()); rest > 0 {
		wait = min(wait, max(rest/2, soon))
	}
	return wait
}

// Message records that the outcome of the upgrade is unknown until there is an answer.
func (b *upgradeBody) Message(seq uint64) *holdfastv1.ClientMessage {
	b.h.callers.upgradeSent = true
	for _, call := range b.h.callers.upgrading {
		call.last = session.ErrOutcomeUnknown
	}
	return &holdfastv1.ClientMessage{
		Trace: b.h.callers.upgrading[0].Trace.Bytes(), // later callers wait for the same upgrade
		Message: &holdfastv1.ClientMessage_Upgrade{
			Upgrade: &holdfastv1.Upgrade{Seq: seq, Token: wire.TokenProto(b.h.token)},
		},
	}
}

// Message records that a close was sent: see expired.
func (b *closeBody) Message(seq uint64) *holdfastv1.ClientMessage {
	b.h.callers.closeSent = true
	m := closeMessage(seq, b.h.token)
	m.Trace = b.h.callers.closing[0].Trace.Bytes() // later callers wait for the same close
	return m
}

// Message closes the session.
func (b *discardBody) Message(seq uint64) *holdfastv1.ClientMessage {
	return closeMessage(seq, b.token)
}

// Message names the sessions to touch, and acknowledges results.
func (b *touchBody) Message(seq uint64) *holdfastv1.ClientMessage {
	touch := &holdfastv1.Touch{Seq: seq}
	for _, h := range b.targets {
		touch.Ids = append(touch.Ids, uint64(h.id))
	}
	if b.sign && len(touch.Ids) == 0 {
		touch.Ids = append(touch.Ids, uint64(noSession))
	}
	b.s.tree.Acknowledge(b.on, touch)
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: touch}}
}

func closeMessage(seq uint64, t session.Token) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Close{
		Close: &holdfastv1.Close{Seq: seq, Token: wire.TokenProto(t)},
	}}
}

// release moves the work of r to the next connection.
func release(r *window.Request) {
	switch b := r.Body.(type) {
	case *resumeBody:
		if b.h.attachment.resuming == r {
			b.h.attachment.resuming = nil
		}
	case *openBody:
		if b.call.on == b.on {
			b.call.on = nil
		}
	}
}
