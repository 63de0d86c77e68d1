package clientport

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// messageLimit names the messages that a client may send.
const messageLimit = "open, resume, touch, close, upgrade, resume_sessions, write, read, add_watches, " +
	"remove_watches or batch"

// seqFrom returns the seq of a message, and an error if it is not a valid one.
func seqFrom(m *holdfastv1.ClientMessage) (uint64, error) {
	q, ok := treeRequestOf(m)
	seq := q.seq
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		seq = m.Open.GetSeq()
	case *holdfastv1.ClientMessage_Resume:
		seq = m.Resume.GetSeq()
	case *holdfastv1.ClientMessage_Touch:
		seq = m.Touch.GetSeq()
	case *holdfastv1.ClientMessage_Close:
		seq = m.Close.GetSeq()
	case *holdfastv1.ClientMessage_Upgrade:
		seq = m.Upgrade.GetSeq()
	case *holdfastv1.ClientMessage_ResumeSessions:
		seq = m.ResumeSessions.GetSeq()
	default:
		if !ok {
			return 0, &session.FieldError{Field: "message", Limit: messageLimit}
		}
	}
	return seq, wire.SeqOf(seq)
}

// touch serves a touch. The reader uses the memory of t again for its next message.
func (c *connection) touch(ctx context.Context, t *holdfastv1.Touch) error {
	ids, err := wire.TouchFrom(t)
	if err != nil {
		return err
	}
	acked, err := wire.AckedFrom(t)
	if err != nil {
		return err
	}
	// A message counts once, whether it names sessions or means all of them: the cost is the message itself.
	now, seq := time.Now(), t.GetSeq()
	if err := c.reservations.Admit(now, ratelimit.Arrival{Kind: ratelimit.Touches}); err != nil {
		return err
	}
	touched := c.conn.TouchAndConfirm(ids, func(safeFor time.Duration) {
		c.promised.extend(ids, now.Add(safeFor))
		var buffer [64]byte
		c.out.write(wire.AppendTouched(buffer[:0], seq, safeFor, 0))
	})
	c.renewed(now, ids, touched.SafeFor)
	if len(acked) > 0 {
		part, err := c.treePart(ctx)
		if err != nil {
			return err
		}
		part.conn.Acknowledge(acked)
	}
	delivered := c.tree.deliveredUpTo()
	if len(touched.Failures) == 0 {
		var buffer [64]byte
		c.out.write(wire.AppendTouched(buffer[:0], seq, touched.SafeFor, delivered))
		return nil
	}
	answer := &holdfastv1.Touched{
		Seq: seq, SafeFor: wire.PromiseProto(touched.SafeFor), Failures: failuresProto(touched.Failures),
		Delivered: delivered,
	}
	c.out.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: answer}})
	return nil
}

// renewed records the promise in the answer to a touch at now, negative for none, and reports what was left of the
// previous promise to Touched. An empty list means all sessions. If a client touches sessions with different timeouts
// separately, the earliest promise counts for the connection.
func (c *connection) renewed(now time.Time, ids []session.ID, safeFor time.Duration) {
	if c.server.cfg.Touched == nil {
		return
	}
	p := &c.promised
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.until.IsZero():
		p.renew(now, ids, safeFor)
	case p.of(ids):
		c.server.cfg.Touched(max(0, p.until.Sub(now)))
		p.renew(now, ids, safeFor)
	case p.to == 0: // a touch of all sessions, or the client has other sessions by now and touches them separately
		if now.After(p.until) {
			p.renew(now, ids, safeFor)
		}
	case safeFor > 0 && now.Add(safeFor).Before(p.first), !c.streamState.serves(p.to):
		p.renew(now, ids, safeFor)
	}
}

// noted is the promise of a connection. Safe for concurrent use.
type noted struct {
	mu sync.Mutex
	// until is the present end of the promise, zero for no promise, and first its end when the touch was first
	// answered: promises of two touches are compared by first. guarded by mu
	until, first time.Time
	// to is one of the sessions that the touch named; 0 for a touch of all. guarded by mu
	to session.ID
}

// of reports whether a touch of these sessions renews the promise. The caller holds mu.
func (p *noted) of(ids []session.ID) bool {
	return len(ids) == 0 || p.to != 0 && slices.Contains(ids, p.to)
}

// extend records a longer promise for the touch that the promise first answered.
func (p *noted) extend(ids []session.ID, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.until) && (len(ids) == 0) == (p.to == 0) && p.of(ids) {
		p.until = until
	}
}

// renew replaces the promise. The caller holds mu.
func (p *noted) renew(now time.Time, ids []session.ID, safeFor time.Duration) {
	p.until, p.to = time.Time{}, 0
	if safeFor > 0 {
		p.until = now.Add(safeFor)
	}
	p.first = p.until
	if len(ids) > 0 {
		p.to = ids[0]
	}
}

// failuresProto returns the failures of a touch for the wire; nil for none. Successive failures with the same error
// value share the error's detail, which would otherwise be most of the message. With more failures than a client can
// name in one request, as when many sessions end at once, it leaves out certificates and holders: each session's Gone
// or Moved carries them.
func failuresProto(failures []session.TouchFailure) []*holdfastv1.TouchFailure {
	if len(failures) == 0 {
		return nil
	}
	many := len(failures) > session.MaxTouchBatch
	out := make([]*holdfastv1.TouchFailure, len(failures))
	var former error
	var detail *holdfastv1.ErrorDetail
	for i, f := range failures {
		err := f.Err
		switch {
		case many && errors.Is(err, session.ErrExpired):
			err = session.ErrExpired
		case many && errors.Is(err, session.ErrMoved):
			err = session.ErrMoved
		}
		if err != former { //nolint:errorlint // the same value, not the same sentinel: their details may differ
			former, detail = err, wire.Detail(err)
		}
		out[i] = &holdfastv1.TouchFailure{Id: uint64(f.ID), Error: detail}
	}
	return out
}

func (c *connection) open(ctx context.Context, o *holdfastv1.Open) error {
	r, err := wire.OpenFrom(o, c.server.cfg.Clock())
	if err != nil {
		return err
	}
	return c.opening(ctx, o.GetSeq(), proto.Size(o), r)
}

// opening begins an open of the given size.
func (c *connection) opening(ctx context.Context, seq uint64, bytes int, r session.OpenRequest) error {
	if err := c.reservations.Admit(time.Now(), ratelimit.Arrival{Kind: ratelimit.Opens, Open: r.RequestID}); err != nil {
		return err
	}
	q := &request{c: c, seq: seq, bytes: bytes, toOpen: r}
	q.request.Open = &q.toOpen
	return c.run(ctx, q)
}

func (c *connection) resume(ctx context.Context, p *holdfastv1.Resume) error {
	r, err := wire.ClientResumeFrom(p)
	if err != nil {
		return err
	}
	if err = c.reservations.Admit(time.Now(), ratelimit.Arrival{Kind: ratelimit.Resumes, Session: r.Token.ID}); err != nil {
		return err
	}
	q := &request{c: c, seq: p.GetSeq(), bytes: proto.Size(p), resume: r.Token.ID}
	q.request.Resume = &r
	return c.run(ctx, q)
}

func (c *connection) close(ctx context.Context, p *holdfastv1.Close) error {
	token, err := wire.TokenFrom(p.GetToken())
	if err != nil {
		return err
	}
	return c.closing(ctx, p.GetSeq(), proto.Size(p), token)
}

// closing begins a close of the given size.
func (c *connection) closing(ctx context.Context, seq uint64, bytes int, token session.Token) error {
	q := &request{c: c, seq: seq, bytes: bytes, token: token}
	q.request.Close = &q.token
	return c.run(ctx, q)
}

// request is one request in flight.
type request struct {
	c   *connection
	seq uint64
	// request is an open, a resume or a close. It is empty for an upgrade.
	request session.Request
	// resume is the session that is resumed, upgrade the session that is made global.
	resume, upgrade session.ID
	// bytes is the approximate memory of the request in flight.
	bytes int
	// toOpen is the body of an open, token the body of a close or an upgrade.
	toOpen session.OpenRequest
	token  session.Token
	// number is the number of an open. before and after are the neighbouring opens in flight.
	number        uint64
	before, after *request
	// over is set when the request has its outcome.
	over atomic.Bool
}

func (q *request) opens() bool { return q.request.Open != nil }

// run begins a request. The node calls back with the outcome, or a goroutine waits for it; connect waits for this
// goroutine. The error says why the request was not begun.
func (c *connection) run(ctx context.Context, q *request) error {
	if err := c.begin(q); err != nil {
		if kind, gated := q.rateLimit(); gated {
			c.reservations.NotBegun(time.Now(), kind)
		}
		return err
	}
	if started, err := c.started(ctx, q); started || err != nil {
		if err != nil {
			q.answer(session.Grant{}, err)
		}
		c.streamState.waits.Done()
		return nil
	}
	go func() {
		defer c.streamState.waits.Done()
		q.answer(c.waited(ctx, q))
	}()
	return nil
}

// begin counts a request in flight, or returns the exceeded limit.
func (c *connection) begin(q *request) error {
	q.bytes += port.RequestBytes
	if err := c.network.Reserve(q.bytes); err != nil {
		return err
	}
	if err := c.streamState.begin(q); err != nil {
		c.network.Add(-q.bytes)
		return err
	}
	return nil
}

// started starts a request that needs no goroutine, and turns a panic into an error.
func (c *connection) started(ctx context.Context, q *request) (ok bool, err error) {
	defer c.server.port.Recovered(wire.ConnectMethod, &err)
	q.request.Trace = session.TraceOf(ctx)
	return q.upgrade == 0 && c.conn.Start(q.request, q.answer), nil
}

// waited serves a request on a goroutine of its own, and turns a panic into an error.
func (c *connection) waited(ctx context.Context, q *request) (g session.Grant, err error) {
	defer c.server.port.Recovered(wire.ConnectMethod, &err)
	switch {
	case q.request.Open != nil:
		return c.conn.Open(ctx, *q.request.Open)
	case q.request.Resume != nil:
		return c.conn.Resume(ctx, *q.request.Resume)
	case q.request.Close != nil:
		return session.Grant{}, c.conn.Close(ctx, *q.request.Close)
	default:
		return c.conn.Upgrade(ctx, q.token)
	}
}

// rateLimit returns the rate limit that the request was admitted by; false for none.
func (q *request) rateLimit() (kind ratelimit.Kind, gated bool) {
	switch {
	case q.request.Open != nil:
		return ratelimit.Opens, true
	case q.request.Resume != nil:
		return ratelimit.Resumes, true
	default:
		return 0, false
	}
}

// answer queues the answer of a request, and then the events that waited for the answer. Only the first call counts: a
// request that panicked after its start may have been answered.
func (q *request) answer(g session.Grant, err error) {
	if !q.over.CompareAndSwap(false, true) {
		return
	}
	c := q.c
	defer c.network.Add(-q.bytes)
	var buffer [256]byte // an answer with labels may be longer
	answer, granted, err := c.answer(buffer[:0], q, &g, err)
	c.streamState.release()
	if err != nil {
		c.fail(q.seq, err)
	} else {
		c.out.write(answer)
	}
	waited, change := c.streamState.answered(q, granted)
	if change != 0 {
		c.count(change)
	}
	if len(waited) == 0 {
		return
	}
	for _, e := range waited {
		c.deliver(e)
	}
	c.streamState.done()
}

// answer appends the answer to a request, and returns it with the token of the session that it grants to this stream,
// if any. It turns a panic into an error.
func (c *connection) answer(b []byte, q *request, g *session.Grant,
	failed error,
) (answer []byte, granted session.Token, err error) {
	defer c.server.port.Recovered(wire.ConnectMethod, &err)
	if failed != nil {
		if kind, gated := q.rateLimit(); gated {
			c.reservations.Unserved(time.Now(), kind, failed)
		}
		return nil, session.Token{}, failed
	}
	switch {
	case q.request.Open != nil:
		c.shortest.note(g.Session.Timeout)
		return wire.AppendOpened(b, q.seq, g), g.Token, nil
	case q.request.Resume != nil:
		c.shortest.note(g.Session.Timeout)
		return wire.AppendResumed(b, q.seq, g), g.Token, nil
	case q.request.Close != nil:
		if c.streamState.forget(q.token.ID) {
			c.count(-1)
		}
		return wire.AppendClosed(b, q.seq), session.Token{}, nil
	default:
		// The stream that serves the session keeps it: an upgrade grants nothing to this stream.
		return wire.AppendUpgraded(b, q.seq, g), session.Token{}, nil
	}
}
