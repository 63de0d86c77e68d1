package tracing_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"holdfast/session"
	"holdfast/transport/tracing"
)

// service, link and log are parts to trace.
type service struct{ session.Service }

func (service) Connect(session.Events) (session.Connection, error) { return connection{}, nil }

type connection struct{ session.Connection }

type link struct {
	tracing.Link
	sent []session.LearnerMessage
}

func (l *link) Send(m session.LearnerMessage) error {
	l.sent = append(l.sent, m)
	return nil
}

type fromNode struct {
	requests []session.Request
	sent     []session.LeaderMessage
}

func (f *fromNode) Recv() (session.LearnerMessage, error) {
	if f.requests == nil {
		return session.LearnerMessage{}, errors.New("cut")
	}
	m := session.LearnerMessage{Requests: f.requests}
	f.requests = nil
	return m, nil
}

func (f *fromNode) Send(m session.LeaderMessage) error {
	f.sent = append(f.sent, m)
	return nil
}

type writer struct {
	tracing.FromWriter
	next session.ForwardMessage
}

func (w *writer) Recv() (session.ForwardMessage, error) { return w.next, nil }

type log struct{ index uint64 }

func (l *log) Propose(context.Context, session.Command) (session.Result, error) {
	return session.Result{}, nil
}

func (l *log) Submit(_ session.Command, done func(session.Result, error)) {
	l.index++
	done(session.Result{Term: 2, Index: l.index}, nil)
}

func traced() *session.Trace {
	return &session.Trace{ID: [16]byte{1}, Span: [8]byte{2}, Flags: session.TraceSampled}
}

func newTracer() (*tracing.Tracer, *tracetest.InMemoryExporter) {
	told := tracetest.NewInMemoryExporter()
	return tracing.New(sdk.NewTracerProvider(sdk.WithSyncer(told))), told
}

// A node that traces nothing has its own parts, and nothing around them: it pays for no trace.
func TestOff(t *testing.T) {
	var off *tracing.Tracer
	s, to, from, of, w := service{}, &link{}, &fromNode{}, &log{}, &writer{}
	if off.Service(s) != session.Service(s) || off.ToLeader(to) != tracing.Link(to) ||
		off.FromNode(from) != tracing.FromNode(from) || off.Log(of) != tracing.Log(of) ||
		off.FromWriter(w) != tracing.FromWriter(w) {
		t.Error("something is around a part of a node that traces nothing")
	}
	if n := testing.AllocsPerRun(100, func() { session.TraceOf(t.Context()); session.TraceFrom(nil) }); n != 0 {
		t.Errorf("a request without a trace costs %v allocations", n)
	}
}

// A request that is in no trace makes no span on its way, and reaches the leader as it was.
func TestRequestsWithoutATrace(t *testing.T) {
	tracer, told := newTracer()
	to := &link{}
	if err := tracer.ToLeader(to).Send(session.LearnerMessage{Requests: []session.Request{{Seq: 1}}}); err != nil {
		t.Fatal(err)
	}
	if to.sent[0].Requests[0].Trace != nil || len(told.GetSpans()) != 0 {
		t.Errorf("sent %+v, with %d spans", to.sent[0], len(told.GetSpans()))
	}
}

// What a node asks of the leader names the node's span, so that the leader's is below it.
func TestTheLeaderGetsTheNodesSpan(t *testing.T) {
	tracer, _ := newTracer()
	to, trace := &link{}, traced()
	all := []session.Request{{Seq: 1, Explain: 7, Trace: trace}}
	if err := tracer.ToLeader(to).Send(session.LearnerMessage{Requests: all}); err != nil {
		t.Fatal(err)
	}
	got := to.sent[0].Requests[0].Trace
	if got == nil || got.ID != trace.ID || got.Span == trace.Span || all[0].Trace != trace {
		t.Errorf("the leader is told %v of a request in %v", got, trace)
	}
}

// A leader's span of a request ends with its reply, or with the stream of the node; what its command would be found by
// is forgotten then.
func TestALeadersSpanEnds(t *testing.T) {
	of := session.Request{Seq: 1, Trace: traced(), Close: &session.Token{ID: 5, Attachment: 6}}
	ends := session.CloseSessions{Sessions: []session.Closing{{ID: 5, Attachment: 6}}}
	for name, end := range map[string]func(tracing.FromNode) error{
		"reply": func(l tracing.FromNode) error {
			return l.Send(session.LeaderMessage{Replies: []session.Reply{{Seq: 1, Err: session.ErrMoved}}})
		},
		"stream": func(l tracing.FromNode) error {
			if _, err := l.Recv(); err == nil {
				return errors.New("the stream goes on")
			}
			return nil
		},
	} {
		tracer, told := newTracer()
		l := tracer.FromNode(&fromNode{requests: []session.Request{of}})
		if _, err := l.Recv(); err != nil {
			t.Fatal(err)
		}
		if len(told.GetSpans()) != 0 {
			t.Fatalf("%s: the span has ended at once", name)
		}
		if err := end(l); err != nil {
			t.Fatal(err)
		}
		if all := told.GetSpans(); len(all) != 1 || all[0].Name != "holdfast.lead" {
			t.Errorf("%s: spans %v, want the leader's", name, all)
		}
		tracer.Log(&log{}).Submit(ends, func(session.Result, error) {})
		if all := told.GetSpans(); len(all) != 1 {
			t.Errorf("%s: a command that comes later is in the trace: %v", name, all)
		}
	}
}

// The command of a forwarded write is found by its address in memory, and all nodes learn of its entry. A write that is
// never proposed keeps no memory.
func TestForwardedWrites(t *testing.T) {
	tracer, told := newTracer()
	forwarded := &writer{}
	w, of := tracer.FromWriter(forwarded), tracer.Log(&log{index: 40})
	node := &fromNode{}
	beats := tracer.FromNode(node)
	command := []byte("a write")
	forwarded.next = session.ForwardMessage{Writes: []session.ForwardedWrite{{Command: command, Trace: traced()}}}
	if _, err := w.Recv(); err != nil {
		t.Fatal(err)
	}
	of.Submit(session.TreeCommand{Encoded: []byte("a write")}, func(session.Result, error) {})
	if all := told.GetSpans(); len(all) != 0 {
		t.Fatalf("the same bytes elsewhere are taken for the write: %v", all)
	}
	of.Submit(session.TreeCommand{Encoded: command}, func(session.Result, error) {})
	if all := told.GetSpans(); len(all) != 1 || all[0].Parent.SpanID() != traced().Span {
		t.Errorf("spans %v, want a proposal below the write", all)
	}
	for range 2 { // the second has nothing new
		if err := beats.Send(session.LeaderMessage{Heartbeat: &session.Heartbeat{Interval: session.MinInterval}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := node.sent[0].Heartbeat.Traced; len(got) != 1 || got[0].Index != 42 || node.sent[1].Heartbeat.Traced != nil {
		t.Errorf("the node is told %v, then %v", got, node.sent[1].Heartbeat.Traced)
	}

	defer runtime.KeepAlive(tracer)
	freed := make(chan struct{})
	func() {
		refused := make([]byte, 1<<20)
		runtime.AddCleanup(&refused[0], func(c chan struct{}) { close(c) }, freed)
		forwarded.next = session.ForwardMessage{Writes: []session.ForwardedWrite{{Command: refused, Trace: traced()}}}
		if _, err := w.Recv(); err != nil {
			t.Fatal(err)
		}
		forwarded.next = session.ForwardMessage{}
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("a write that was not proposed is kept in memory")
}
