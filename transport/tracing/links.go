package tracing

import (
	"slices"

	"go.opentelemetry.io/otel/trace"

	"holdfast/session"
)

// Link is a node's end of a stream to a leader.
type Link interface {
	Send(m session.LearnerMessage) error
	Recv() (session.LeaderMessage, error)
	Close() error
}

// ToLeader returns a link whose requests are spans of their own. It reads from the heartbeats which entries are in
// traces.
func (t *Tracer) ToLeader(l Link) Link {
	if t == nil {
		return l
	}
	to := &toLeader{Link: l, t: t}
	to.open.limit = maxKept
	return to
}

type toLeader struct {
	Link
	t *Tracer
	// open are the requests without a reply, by their numbers.
	open table[uint64, pendingRequest]
}

// pendingRequest is a request without a reply: its span, and the trace of the client's request behind it.
type pendingRequest struct {
	span *span
	of   *session.Trace
}

// Send sends a message.
func (l *toLeader) Send(m session.LearnerMessage) error {
	if slices.ContainsFunc(m.Requests, func(r session.Request) bool { return r.Trace != nil }) {
		m.Requests = slices.Clone(m.Requests)
		for i := range m.Requests {
			l.begin(&m.Requests[i])
		}
	}
	return l.Link.Send(m)
}

// begin begins the span of a request.
func (l *toLeader) begin(r *session.Request) {
	s := l.t.under(r.Trace, forwardSpan, trace.SpanKindClient)
	if s == nil {
		return
	}
	s.set(requestKey.String(kindOf(r)))
	l.open.put(r.Seq, pendingRequest{s, r.Trace})
	r.Trace = s.place
}

// Recv returns the leader's next message.
func (l *toLeader) Recv() (session.LeaderMessage, error) {
	m, err := l.Link.Recv()
	if err != nil {
		for _, one := range l.open.empty() {
			one.span.end(session.ErrOutcomeUnknown)
		}
		return m, err
	}
	for i := range m.Replies {
		l.reply(&m.Replies[i])
	}
	if m.Heartbeat != nil {
		l.t.record(m.Heartbeat.Traced)
	}
	return m, nil
}

// reply ends the span of a request. Until this node answers the client, it waits for its own state (M3 served in the
// leader's term).
func (l *toLeader) reply(r *session.Reply) {
	one, ok := l.open.remove(r.Seq)
	if !ok {
		return
	}
	one.span.end(r.Err)
	if r.Err != nil || r.Index == 0 {
		return
	}
	waits := l.t.under(one.of, awaitSpan, trace.SpanKindInternal)
	waits.set(indexAttribute(r.Index))
	if waits != nil {
		l.t.awaited.put(one.of, waits)
	}
}

// ForwardLink is a node's end of a stream of writes.
type ForwardLink interface {
	Send(m session.ForwardMessage) error
	Recv() ([]session.WriteRefusal, error)
	Close() error
}

// Writes returns a stream of writes that carries their traces. A write's span ends with its answer, which comes from
// the node's own log (W4 answers from applied entries).
func (t *Tracer) Writes(l ForwardLink) ForwardLink {
	if t == nil {
		return l
	}
	return writes{l, t}
}

type writes struct {
	ForwardLink
	t *Tracer
}

// Send sends a message.
func (l writes) Send(m session.ForwardMessage) error {
	if l.t.written.size.Load() > 0 && len(m.Writes) > 0 {
		m.Writes = slices.Clone(m.Writes)
		for i := range m.Writes {
			m.Writes[i].Trace = l.t.sends(written{m.Writes[i].Session, m.Writes[i].Number})
		}
	}
	return l.ForwardLink.Send(m)
}

// sends returns the trace for sending a write. A write that is sent again continues in its first span.
func (t *Tracer) sends(of written) *session.Trace {
	t.written.mu.Lock()
	defer t.written.mu.Unlock()
	one := t.written.all[of]
	if one == nil {
		return nil
	}
	if one.sent == nil {
		one.sent = t.under(one.span.place, forwardSpan, trace.SpanKindClient)
		one.sent.set(requestKey.String("write"))
	}
	return one.sent.trace()
}

// kindOf returns the kind of a request.
func kindOf(r *session.Request) string {
	switch {
	case r.Open != nil:
		return "open"
	case r.Resume != nil:
		return "resume"
	case r.Resumes != nil:
		return "resume_many"
	case r.Close != nil:
		return "close"
	case r.Read != nil:
		return "read"
	default:
		return "other"
	}
}
