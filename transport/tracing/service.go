package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"holdfast/session"
	"holdfast/tree"
)

// Service returns a service that traces its clients' requests: each is a span, a child of the client's span if the
// request names one.
func (t *Tracer) Service(of session.Service) session.Service {
	if t == nil {
		return of
	}
	return service{of, t}
}

type service struct {
	session.Service
	t *Tracer
}

// Connect begins a connection.
func (s service) Connect(events session.Events) (session.Connection, error) {
	c, err := s.Service.Connect(events)
	if err != nil {
		return nil, err
	}
	return connection{c, s.t}, nil
}

type connection struct {
	session.Connection
	t *Tracer
}

// Open opens a session.
func (c connection) Open(ctx context.Context, o session.OpenRequest) (session.Grant, error) {
	s := c.t.begin(session.TraceOf(ctx), openSpan)
	g, err := c.Connection.Open(session.WithTrace(ctx, s.trace()), o)
	c.t.granted(s, &g, err)
	return g, err
}

// Resume moves a session here.
func (c connection) Resume(ctx context.Context, r session.ResumeRequest) (session.Grant, error) {
	s := c.t.begin(session.TraceOf(ctx), resumeSpan)
	s.set(named(r.Token.ID))
	g, err := c.Connection.Resume(session.WithTrace(ctx, s.trace()), r)
	c.t.granted(s, &g, err)
	return g, err
}

// Close ends a session.
func (c connection) Close(ctx context.Context, of session.Token) error {
	s := c.t.begin(session.TraceOf(ctx), closeSpan)
	s.set(named(of.ID))
	err := c.Connection.Close(session.WithTrace(ctx, s.trace()), of)
	c.t.granted(s, nil, err)
	return err
}

// Upgrade makes a session global. Its request to the leader serves all callers that wait for it, and is in no trace.
func (c connection) Upgrade(ctx context.Context, of session.Token) (session.Grant, error) {
	s := c.t.begin(session.TraceOf(ctx), upgradeSpan)
	s.set(named(of.ID))
	g, err := c.Connection.Upgrade(ctx, of)
	c.t.granted(s, nil, err)
	return g, err
}

// Start begins an open, a resume or a close.
func (c connection) Start(r session.Request, done func(session.Grant, error)) bool {
	var s *span
	switch {
	case r.Open != nil:
		s = c.t.begin(r.Trace, openSpan)
	case r.Resume != nil:
		s = c.t.begin(r.Trace, resumeSpan)
		s.set(named(r.Resume.Token.ID))
	case r.Close != nil:
		s = c.t.begin(r.Trace, closeSpan)
		s.set(named(r.Close.ID))
	}
	if s == nil {
		return c.Connection.Start(r, done)
	}
	r.Trace = s.place
	// The span of a request that was not started is never ended, and so never sent: the request comes again as a call.
	return c.Connection.Start(r, func(g session.Grant, err error) {
		c.t.granted(s, &g, err)
		done(g, err)
	})
}

// StartResumes begins to move many sessions here.
func (c connection) StartResumes(r session.ResumesRequest, done func([]session.Resumed)) {
	s := c.t.begin(r.Trace, movesSpan)
	if s == nil {
		c.Connection.StartResumes(r, done)
		return
	}
	ids := make([]session.ID, len(r.Sessions))
	for i := range r.Sessions {
		ids[i] = r.Sessions[i].ID
	}
	s.set(namedAll(ids)...)
	r.Trace = s.place
	c.Connection.StartResumes(r, func(all []session.Resumed) {
		var first error
		for i := range all {
			if first == nil {
				first = all[i].Err
			}
		}
		c.t.granted(s, nil, first)
		done(all)
	})
}

// begin begins the span of a client's request.
func (t *Tracer) begin(parent *session.Trace, name string) *span {
	return t.start(parent, name, trace.SpanKindServer)
}

// granted ends the span of a client's request, and the span of its wait for this node's state, if it waited.
func (t *Tracer) granted(s *span, g *session.Grant, err error) {
	if s == nil {
		return
	}
	if waited, ok := t.awaited.remove(s.place); ok {
		waited.end(err)
	}
	if g != nil && err == nil && g.Session.ID != 0 {
		s.set(named(g.Session.ID))
	}
	s.end(err)
}

// Tree begins the tree's part of the connection.
func (c connection) Tree(principals []tree.Principal, notify func()) session.TreeConnection {
	part := &treePart{TreeConnection: c.Connection.Tree(principals, notify), t: c.t}
	part.open.limit = maxKept
	return part
}

// written identifies a write.
type written struct {
	session session.ID
	number  uint64
}

// writing is a client's write without an answer. sent is the span of its way to the leader and through the log.
type writing struct {
	span *span
	of   written
	sent *span // guarded by Tracer.written.mu once writing is in the table
}

// treePart is the tree's part of a connection.
type treePart struct {
	session.TreeConnection
	t *Tracer
	// open are the writes without an answer, by the client's keys.
	open table[uint64, *writing]
}

// Write accepts a write.
func (p *treePart) Write(w session.TreeWrite) error {
	s := p.t.begin(w.Trace, writeSpan)
	if s == nil {
		return p.TreeConnection.Write(w)
	}
	of := written{session.ID(w.Write.Session), w.Write.Number}
	s.set(named(of.session), numberKey.Int64(int64(of.number)), //nolint:gosec // only for display
		opsKey.Int(len(w.Write.Transaction.Then)+len(w.Write.Transaction.Else)))
	if ops := w.Write.Transaction.Then; len(ops) > 0 {
		path := ops[0].Target()
		s.set(pathKey.String(path[:min(len(path), maxPath)]))
	}
	w.Trace = s.place
	one := &writing{span: s, of: of}
	p.open.put(w.Key, one) // before the answer, which may come at once
	p.t.written.put(of, one)
	err := p.TreeConnection.Write(w)
	if err != nil {
		p.end(w.Key, err)
	}
	return err
}

// end ends the span of a write; other keys have none.
func (p *treePart) end(key uint64, err error) {
	one, ok := p.open.remove(key)
	if !ok {
		return
	}
	p.t.written.remove(one.of)
	one.sent.end(err)
	one.span.end(err)
}

// Next removes and returns the next message to the client.
func (p *treePart) Next(now time.Time) (session.TreeMessage, bool) {
	message, ok := p.TreeConnection.Next(now)
	if ok && message.Answer != nil {
		p.end(message.Answer.Key, message.Answer.Err)
	}
	return message, ok
}

// Close ends the part. Writes without an answer may still take effect.
func (p *treePart) Close() {
	p.TreeConnection.Close()
	for _, one := range p.open.empty() {
		p.t.written.remove(one.of)
		one.sent.end(session.ErrOutcomeUnknown)
		one.span.end(session.ErrOutcomeUnknown)
	}
}
