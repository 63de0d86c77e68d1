package tracing

import (
	"context"
	"time"
	"weak"

	"go.opentelemetry.io/otel/trace"

	"holdfast/session"
)

// FromNode is a leader's end of a node's stream.
type FromNode interface {
	Send(m session.LeaderMessage) error
	Recv() (session.LearnerMessage, error)
}

// FromNode returns a link whose requests are spans of the leader. Its heartbeats report which entries are in traces.
func (t *Tracer) FromNode(l FromNode) FromNode {
	if t == nil {
		return l
	}
	from := &fromNode{FromNode: l, t: t, sent: t.feed.now()}
	from.open.limit = maxKept
	return from
}

type fromNode struct {
	FromNode
	t *Tracer
	// open are the requests without a reply, by their numbers.
	open table[uint64, led]
	// sent is the position in the feed up to which the node has received it. It belongs to the sending goroutine.
	sent uint64
}

// led is a request at the leader: its span, and the keys of its commands.
type led struct {
	span *span
	keys []any
}

// Recv returns the node's next message.
func (l *fromNode) Recv() (session.LearnerMessage, error) {
	m, err := l.FromNode.Recv()
	if err != nil {
		for _, one := range l.open.empty() {
			l.end(one, session.ErrOutcomeUnknown)
		}
	}
	for i := range m.Requests {
		if r := &m.Requests[i]; r.Trace != nil {
			l.receive(r)
		}
	}
	return m, err
}

// receive begins the span of a request. The request's commands find the span by their keys.
func (l *fromNode) receive(r *session.Request) {
	s := l.t.under(r.Trace, leadSpan, trace.SpanKindServer)
	if s == nil {
		return
	}
	s.set(requestKey.String(kindOf(r)))
	keys := keysOf(r)
	l.open.put(r.Seq, led{s, keys})
	for _, key := range keys {
		l.t.wanted.put(key, s)
	}
}

// end ends the span of a request. No further command of the request will be proposed.
func (l *fromNode) end(one led, err error) {
	for _, key := range one.keys {
		l.t.wanted.remove(key)
	}
	one.span.end(err)
}

// Send sends a message.
func (l *fromNode) Send(m session.LeaderMessage) error {
	for i := range m.Replies {
		r := &m.Replies[i]
		if one, ok := l.open.remove(r.Seq); ok {
			l.end(one, r.Err)
		}
	}
	if m.Heartbeat != nil {
		var some []session.Traced
		if some, l.sent = l.t.feed.since(l.sent); len(some) > 0 {
			beat := *m.Heartbeat // the message may go to several nodes
			beat.Traced = some
			m.Heartbeat = &beat
		}
	}
	return l.FromNode.Send(m)
}

// Keys of commands, besides the [session.RequestID] of an open. The key of a write is the address of its command, which
// stays the same from the stream to the log. The pointer is weak, so that a write that is refused and never proposed
// keeps no memory.
type (
	moveKey struct {
		id                session.ID
		instance, attempt uint64
	}
	endKey struct {
		id         session.ID
		attachment uint64
	}
)

// keysOf returns the keys of a request's commands.
func keysOf(r *session.Request) (keys []any) {
	switch {
	case r.Open != nil:
		keys = append(keys, r.Open.RequestID)
	case r.Resume != nil:
		keys = append(keys, moveKey{r.Resume.Token.ID, r.Resume.Instance, r.Resume.Attempt})
	case r.Resumes != nil:
		for i := range r.Resumes.Sessions {
			one := &r.Resumes.Sessions[i]
			keys = append(keys, moveKey{one.ID, r.Resumes.Instance, one.Attempt})
		}
	case r.Close != nil:
		keys = append(keys, endKey{r.Close.ID, r.Close.Attachment})
	}
	return keys
}

// FromWriter is a leader's end of a stream of writes.
type FromWriter interface {
	Welcome(term uint64) error
	Refuse(all []session.WriteRefusal) error
	Recv() (session.ForwardMessage, error)
}

// FromWriter returns a stream of writes whose commands find their traces.
func (t *Tracer) FromWriter(l FromWriter) FromWriter {
	if t == nil {
		return l
	}
	return fromWriter{l, t}
}

type fromWriter struct {
	FromWriter
	t *Tracer
}

// Recv returns the node's next message. A write that the leader refuses has no span here.
func (l fromWriter) Recv() (session.ForwardMessage, error) {
	m, err := l.FromWriter.Recv()
	for i := range m.Writes {
		if w := &m.Writes[i]; w.Trace != nil && len(w.Command) > 0 {
			l.t.wanted.put(weak.Make(&w.Command[0]), &span{place: w.Trace})
		}
	}
	return m, err
}

// Expired begins the trace of sessions that the leader has just found expired; late has the delay of each. The trace
// ends when the log has decided their end.
func (t *Tracer) Expired(found []session.Closing, late []time.Duration) {
	if t == nil || len(found) == 0 {
		return
	}
	s := t.start(nil, expireSpan, trace.SpanKindInternal)
	if s == nil {
		return
	}
	ids, latest := make([]session.ID, len(found)), time.Duration(0)
	for i := range found {
		ids[i] = found[i].ID
	}
	for _, d := range late {
		latest = max(latest, d)
	}
	s.set(append(namedAll(ids), milliseconds(latest))...)
	t.wanted.put(endKey{found[0].ID, found[0].Attachment}, s)
}

// Log accepts a leader's commands.
type Log interface {
	Propose(ctx context.Context, c session.Command) (session.Result, error)
	Submit(c session.Command, done func(session.Result, error))
}

// Log returns a log that traces the commands of traced requests, from their proposal until this node has applied them.
func (t *Tracer) Log(l Log) Log {
	if t == nil {
		return l
	}
	return log{l, t}
}

type log struct {
	Log
	t *Tracer
}

// Submit proposes a command.
func (l log) Submit(c session.Command, done func(session.Result, error)) {
	parents := l.t.parentsOf(c)
	if len(parents) == 0 {
		l.Log.Submit(c, done)
		return
	}
	spans := make([]*span, len(parents))
	for i, parent := range parents {
		spans[i] = l.t.under(parent.place, proposeSpan, trace.SpanKindInternal)
	}
	closes, _ := c.(session.CloseSessions)
	l.Log.Submit(c, func(result session.Result, err error) {
		why := err
		if why == nil {
			why = result.Err
		}
		for i, s := range spans {
			l.t.proposed(s, &result, why)
			if closes.Cause == session.CauseExpired {
				parents[i].end(why) // the leader's decision is complete
			}
		}
		done(result, err)
	})
}

// proposed ends the span of a proposal, and announces its entry to all nodes.
func (t *Tracer) proposed(s *span, result *session.Result, why error) {
	if s == nil {
		return
	}
	if result.Index > 0 {
		s.set(indexAttribute(result.Index), termKey.Int64(int64(result.Term))) //nolint:gosec // only for display
		t.feed.add(session.Traced{Index: result.Index, Trace: s.place})
	}
	s.end(why)
}

// parentsOf returns the spans of the requests for which a command is.
func (t *Tracer) parentsOf(c session.Command) (all []*span) {
	if t.wanted.size.Load() == 0 {
		return nil
	}
	var keys []any
	switch c := c.(type) {
	case session.OpenSession:
		keys = []any{c.RequestID}
	case session.MoveSession:
		keys = []any{moveKey{c.ID, c.Instance, c.Attempt}}
	case session.MoveSessions:
		for i := range c.Sessions {
			keys = append(keys, moveKey{c.Sessions[i].ID, c.Instance, c.Sessions[i].Attempt})
		}
	case session.CloseSessions:
		for i := range c.Sessions {
			keys = append(keys, endKey{c.Sessions[i].ID, c.Sessions[i].Attachment})
		}
	case session.TreeCommand:
		if len(c.Encoded) > 0 {
			keys = []any{weak.Make(&c.Encoded[0])}
		}
	}
	var former *span
	for _, key := range keys {
		if s, ok := t.wanted.remove(key); ok && s != former { // one request for many sessions is one span
			all, former = append(all, s), s
		}
	}
	return all
}
