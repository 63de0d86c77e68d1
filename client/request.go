package client

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// request is one message to a node that wants an answer.
type request struct {
	body requestBody
	seq  uint64
	// sent is when it was handed to the stream: what the answer promises counts from there. Zero before.
	sent time.Time
	// due is when it is sent again, while it waits for that; named is the moment that the node named when it refused
	// it, refused how often it did, not counting when it was asked before that moment.
	due, named time.Time
	refused    int
	// suspensions noticed by then: the answer to a request from before a suspension promises nothing (S5).
	suspensions uint64
}

// requestBody is one of *openBody, *resumeBody, *upgradeBody, *closeBody, *discardBody and *touchBody.
type requestBody interface {
	// message returns what is sent under seq.
	message(l *loop, seq uint64) *holdfastv1.ClientMessage
	// wanted reports whether it still makes sense to send it.
	wanted() bool
}

type openBody struct {
	call *call
	on   *conn
}

type resumeBody struct {
	h     *held
	on    *conn
	local bool // sent with a local token
}

type closeBody struct{ h *held }

// discardBody closes a session nobody waits for any more; one try is enough, it expires by itself.
type discardBody struct{ token session.Token }

type touchBody struct {
	// targets are named in the touch; nil means all that were served here when it was sent.
	targets []*held
	// smallest timeout of those touched.
	smallest time.Duration
	// local: all of them are local sessions.
	local bool
}

func (b *openBody) wanted() bool    { return !b.call.settled && b.call.on == b.on }
func (b *resumeBody) wanted() bool  { return b.h.resuming != nil && b.h.resuming.body == b }
func (b *closeBody) wanted() bool   { return len(b.h.closing) > 0 && b.h.on != nil }
func (b *discardBody) wanted() bool { return true }
func (b *touchBody) wanted() bool   { return true }

func (b *openBody) message(_ *loop, seq uint64) *holdfastv1.ClientMessage {
	b.call.sends++
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: &holdfastv1.Open{
		Seq: seq, Timeout: durationpb.New(b.call.opts.Timeout), Labels: b.call.opts.Labels,
		RequestId: b.call.request[:],
		Local:     b.call.opts.Local,
	}}}
}

// message takes a new attempt each time, so that whichever of them is applied last is the one whose answer counts,
// and names the newest attachment that this client has been told of (M1).
func (b *resumeBody) message(l *loop, seq uint64) *holdfastv1.ClientMessage {
	l.attempts++
	b.local, b.h.unheard = b.h.token.Local, true
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: &holdfastv1.Resume{
		Seq: seq, Token: wire.TokenProto(b.h.token), Instance: l.cfg.Instance, Attempt: l.attempts,
		SeenIndex: l.demand(),
	}}}
}

func (b *closeBody) message(_ *loop, seq uint64) *holdfastv1.ClientMessage {
	b.h.closeSent = true
	return closeMessage(seq, b.h.token)
}

func (b *discardBody) message(_ *loop, seq uint64) *holdfastv1.ClientMessage {
	return closeMessage(seq, b.token)
}

func closeMessage(seq uint64, t session.Token) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Close{
		Close: &holdfastv1.Close{Seq: seq, Token: wire.TokenProto(t)},
	}}
}

func (b *touchBody) message(_ *loop, seq uint64) *holdfastv1.ClientMessage {
	touch := &holdfastv1.Touch{Seq: seq}
	for _, h := range b.targets {
		touch.Ids = append(touch.Ids, uint64(h.s.id))
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: touch}}
}

// pump sends what waits, as far as the window allows.
func (l *loop) pump(c *conn) {
	c.queue = append(c.queue, c.again.pop(l.now)...)
	for c.up && len(c.queue) > 0 && len(c.inflight)-c.touches < requestWindow {
		r := c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
		if r.body.wanted() {
			l.send(c, r)
		}
	}
}

// send hands r to the stream. The moment noted is before that, so a promise counted from it is never too long (S3).
func (l *loop) send(c *conn, r *request) {
	if len(c.inflight) == 0 {
		c.heard = l.now
	}
	c.seq++
	r.seq, r.sent, r.suspensions = c.seq, l.now, l.suspensions
	c.inflight[r.seq] = r
	c.out <- r.body.message(l, r.seq) // has room: see requestWindow and touchWindow
}

// take returns the request that seq answers.
func (c *conn) take(seq uint64) (*request, bool) {
	r, ok := c.inflight[seq]
	if !ok {
		return nil, false
	}
	delete(c.inflight, seq)
	if _, touch := r.body.(*touchBody); touch {
		c.touches--
	}
	return r, true
}

// pause has r repeated on c after a back-off, which grows with what c refused in a row and with the rounds over all
// nodes that came to nothing. Each request for which the node named a moment comes back at its own, so that those of
// one client do not come all at once either; one back-off serves all others that are refused meanwhile.
func (l *loop) pause(c *conn, r *request, err error) {
	if len(c.again) == 0 {
		c.pauses++
	}
	n := max(c.pauses, l.router.Rounds)
	early := l.now.Before(r.named)
	r.named = time.Time{}
	switch {
	case route.Hint(err) > 0:
		if !early {
			r.refused++
		}
		r.named = l.now.Add(route.Hint(err))
		r.due = l.now.Add(l.comesBack(r, max(n, r.refused), err))
	case l.now.Before(c.pausedUntil):
		r.due = c.pausedUntil
	default:
		c.pausedUntil = l.now.Add(l.jitter.Wait(n, err))
		r.due = c.pausedUntil
	}
	c.again.push(r)
}
