package tracing_test

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"holdfast/session"
	"holdfast/transport/tracing"
	"holdfast/transport/tracing/otlp"
)

// discard is a collector that accepts everything.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }

func (discard) Shutdown(context.Context) error { return nil }

// way are the parts that an open passes from its client to the log and back, with a tracer around each, and nothing
// else: each hands on what it is given.
type way struct {
	client connected
	conn   session.Connection
	wire   wire
	to     tracing.Link
	from   tracing.FromNode
	log    tracing.Log
}

// connected is a service and its only connection.
type connected struct {
	session.Service
	session.Connection
	request session.Request
	done    func(session.Grant, error)
	touched uint64
}

func (c *connected) Connect(session.Events) (session.Connection, error) { return c, nil }

func (c *connected) Start(r session.Request, done func(session.Grant, error)) bool {
	c.request, c.done = r, done
	return true
}

func (c *connected) Touch(ids []session.ID) session.Touched {
	c.touched += uint64(len(ids))
	return session.Touched{}
}

// wire is both ends of a stream: it has the newest message of each side.
type wire struct {
	asked    session.LearnerMessage
	answered session.LeaderMessage
}

type nodesEnd struct{ *wire }

func (w nodesEnd) Send(m session.LearnerMessage) error  { w.asked = m; return nil }
func (w nodesEnd) Recv() (session.LeaderMessage, error) { return w.answered, nil }
func (nodesEnd) Close() error                           { return nil }

type leadersEnd struct{ *wire }

func (w leadersEnd) Send(m session.LeaderMessage) error    { w.answered = m; return nil }
func (w leadersEnd) Recv() (session.LearnerMessage, error) { return w.asked, nil }

func newWay(tb testing.TB, t *tracing.Tracer) *way {
	tb.Helper()
	w := &way{}
	var err error
	if w.conn, err = t.Service(&w.client).Connect(nil); err != nil {
		tb.Fatal(err)
	}
	w.to, w.from, w.log = t.ToLeader(nodesEnd{&w.wire}), t.FromNode(leadersEnd{&w.wire}), t.Log(&log{})
	return w
}

// open sends an open all the way.
func (w *way) open(seq uint64, o *session.OpenRequest, trace *session.Trace) error {
	w.conn.Start(session.Request{Seq: seq, Open: o, Trace: trace}, func(session.Grant, error) {})
	err := w.to.Send(session.LearnerMessage{Requests: []session.Request{w.client.request}})
	if err != nil {
		return err
	}
	if _, err = w.from.Recv(); err != nil {
		return err
	}
	w.log.Submit(session.OpenSession{RequestID: o.RequestID}, func(session.Result, error) {})
	if err = w.from.Send(session.LeaderMessage{Replies: []session.Reply{{Seq: seq, Index: seq}}}); err != nil {
		return err
	}
	if _, err = w.to.Recv(); err != nil {
		return err
	}
	w.client.done(session.Grant{}, nil)
	return nil
}

// tracer returns what traces with a ratio, to a collector that accepts everything.
func tracer(tb testing.TB, ratio float64) *tracing.Tracer {
	tb.Helper()
	p, err := otlp.New(otlp.Config{Logger: hclog.NewNullLogger(), SampleRatio: ratio, Exporter: discard{}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return tracing.New(p)
}

// BenchmarkOpen is what traces cost an open: five spans of the node and the leader, without those of applying the
// entry.
func BenchmarkOpen(b *testing.B) {
	for _, of := range []struct {
		name   string
		tracer func() *tracing.Tracer
		trace  *session.Trace
	}{
		{"off", func() *tracing.Tracer { return nil }, traced()},
		{"not-sampled", func() *tracing.Tracer { return tracer(b, 0) }, nil},
		{"sampled", func() *tracing.Tracer { return tracer(b, 1) }, nil},
		{"below-the-callers", func() *tracing.Tracer { return tracer(b, 0) }, traced()},
	} {
		b.Run(of.name, func(b *testing.B) {
			w := newWay(b, of.tracer())
			o := &session.OpenRequest{RequestID: session.RequestID{1}}
			seq := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				seq++
				if err := w.open(seq, o, of.trace); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A request that is not sampled costs an open at most four allocations, and a touch costs none.
func TestNotSampledIsCheap(t *testing.T) {
	off, on := newWay(t, nil), newWay(t, tracer(t, 0))
	o := &session.OpenRequest{RequestID: session.RequestID{1}}
	opens := func(w *way) float64 {
		return testing.AllocsPerRun(1000, func() {
			if err := w.open(1, o, nil); err != nil {
				t.Error(err)
			}
		})
	}
	if more := opens(on) - opens(off); more > 4 {
		t.Errorf("an open that is not sampled costs %v allocations more than without traces", more)
	}
	one := []session.ID{1}
	if more := testing.AllocsPerRun(1000, func() { on.conn.Touch(one) }); more != 0 {
		t.Errorf("a touch costs %v allocations with traces", more)
	}
}

// BenchmarkTouch is what traces cost a touch: nothing is made for it.
func BenchmarkTouch(b *testing.B) {
	for name, ratio := range map[string]float64{"off": -1, "on": 1} {
		b.Run(name, func(b *testing.B) {
			var t *tracing.Tracer
			if ratio >= 0 {
				t = tracer(b, ratio)
			}
			w, one := newWay(b, t), []session.ID{1}
			b.ReportAllocs()
			for b.Loop() {
				w.conn.Touch(one)
			}
		})
	}
}
