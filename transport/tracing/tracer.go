// Package tracing makes spans of a node's work for its clients and of its leader's decisions: opens, moves, closes,
// writes and expiries, across nodes. It wraps the interfaces between the parts that do the work, which do not know it:
// a node without tracing has no wrappers. Touches make no spans.
//
//	client -> Service -> ToLeader ~~> FromNode -> Log -> (the log) -> Applied on each node
//
// Messages carry a [session.Trace] as far as the leader. The log has none, so a leader finds the trace of a command by
// the command's key, and reports to the nodes in heartbeats which entries are in which traces. All this state is
// bounded; beyond a bound only spans are lost.
package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"holdfast/session"
	"holdfast/transport/wire"
)

// Names of spans.
const (
	openSpan    = "holdfast.open"
	resumeSpan  = "holdfast.resume"
	movesSpan   = "holdfast.resume_many"
	closeSpan   = "holdfast.close"
	upgradeSpan = "holdfast.upgrade"
	writeSpan   = "holdfast.write"
	forwardSpan = "holdfast.forward"
	leadSpan    = "holdfast.lead"
	proposeSpan = "holdfast.propose"
	applySpan   = "holdfast.apply"
	awaitSpan   = "holdfast.await_apply"
	expireSpan  = "holdfast.expire"
)

// Keys of attributes.
const (
	sessionKey  = attribute.Key("holdfast.session.id")
	sessionsKey = attribute.Key("holdfast.sessions")
	countKey    = attribute.Key("holdfast.sessions.count")
	requestKey  = attribute.Key("holdfast.request")
	indexKey    = attribute.Key("holdfast.log.index")
	termKey     = attribute.Key("holdfast.log.term")
	numberKey   = attribute.Key("holdfast.write.number")
	opsKey      = attribute.Key("holdfast.write.operations")
	pathKey     = attribute.Key("holdfast.write.path")
	latestKey   = attribute.Key("holdfast.expiry.lateness_ms")
)

// Bounds of what a Tracer keeps.
const (
	// maxKept bounds each of its tables: requests in flight, writes without an answer.
	maxKept = 8192
	// maxEntries bounds the newest entries whose apply times a node remembers, the entries in traces that it waits for,
	// and the traces that it has still to send.
	maxEntries = 1024
	// maxNamed bounds the sessions that a span names, maxPath the bytes of a path.
	maxNamed = 32
	maxPath  = 256
)

// Tracer makes the spans of one node. A nil Tracer makes none, and returns the parts unwrapped. Safe for concurrent
// use.
type Tracer struct {
	spans trace.Tracer
	// wanted are spans of requests and decisions at the leader, by the keys of their commands.
	wanted table[any, *span]
	// awaited are the spans of replies whose entries this node has not applied yet, by the traces of their requests.
	awaited table[*session.Trace, *span]
	// written are clients' writes without an answer.
	written table[written, *writing]
	applied entries
	feed    feed
}

// New returns a Tracer that makes spans with a provider.
func New(provider trace.TracerProvider) *Tracer {
	t := &Tracer{spans: provider.Tracer("holdfast")}
	t.wanted.limit, t.awaited.limit, t.written.limit = maxKept, maxKept, maxKept
	t.applied.waiting.limit = maxEntries
	return t
}

// span is a recorded span. A nil span is none.
type span struct {
	trace.Span
	// place is the parent for the span's children.
	place *session.Trace
}

// start begins a span; nil if it is not recorded, and then its children are not either. A nil parent is none.
func (t *Tracer) start(parent *session.Trace, name string, kind trace.SpanKind, o ...trace.SpanStartOption) *span {
	ctx := context.Background() //nolint:forbidigo // a span's parent is in a message, and not in a context
	if parent != nil {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: parent.ID, SpanID: parent.Span, TraceFlags: trace.TraceFlags(parent.Flags), Remote: true,
		}))
	}
	_, one := t.spans.Start(ctx, name, append(o, trace.WithSpanKind(kind))...)
	if !one.IsRecording() {
		return nil
	}
	at := one.SpanContext()
	return &span{one, &session.Trace{ID: at.TraceID(), Span: at.SpanID(), Flags: byte(at.TraceFlags())}}
}

// under begins a span within this node; nil without a recorded parent.
func (t *Tracer) under(parent *session.Trace, name string, kind trace.SpanKind) *span {
	if parent == nil {
		return nil
	}
	return t.start(parent, name, kind)
}

// trace returns the place of a span; nil for none.
func (s *span) trace() *session.Trace {
	if s == nil {
		return nil
	}
	return s.place
}

// set adds attributes.
func (s *span) set(all ...attribute.KeyValue) {
	if s != nil {
		s.SetAttributes(all...)
	}
}

// end ends the span. Of an error it records only the reason that clients get, because the text may contain confidential
// values.
func (s *span) end(err error) {
	if s == nil {
		return
	}
	if err != nil {
		s.SetStatus(codes.Error, wire.Detail(err).GetReason().String())
	}
	s.End()
}

func named(id session.ID) attribute.KeyValue { return sessionKey.String(id.String()) }

// namedAll returns the number of sessions, and the first of them.
func namedAll(ids []session.ID) []attribute.KeyValue {
	first := make([]string, 0, min(len(ids), maxNamed))
	for _, id := range ids[:cap(first)] {
		first = append(first, id.String())
	}
	return []attribute.KeyValue{countKey.Int(len(ids)), sessionsKey.StringSlice(first)}
}

func indexAttribute(index uint64) attribute.KeyValue {
	return indexKey.Int64(int64(index)) //nolint:gosec // no log is as long as 2^63
}

func milliseconds(d time.Duration) attribute.KeyValue { return latestKey.Int64(d.Milliseconds()) }
