package otlp_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/transport/tracing/otlp"
)

// queueSpans is how many spans wait for a collector.
const queueSpans = 4096

// stub is a collector.
type stub struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (s *stub) Export(_ context.Context, r *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	s.got <- r
	return &collector.ExportTraceServiceResponse{}, nil
}

func configured(endpoint string) otlp.Config {
	return otlp.Config{
		Logger: hclog.NewNullLogger(), Endpoint: endpoint, SampleRatio: 1, Cluster: "c", Node: 2, Version: "v",
	}
}

func provider(t *testing.T, cfg otlp.Config) *otlp.Provider {
	t.Helper()
	p, err := otlp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// begun makes spans, and ends them.
func begun(t *testing.T, p *otlp.Provider, count int) {
	t.Helper()
	for range count {
		_, span := p.Tracer("test").Start(t.Context(), "some span")
		span.End()
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// served returns the endpoint of a collector, which serves until the test ends.
func served(t *testing.T, s collector.TraceServiceServer) (endpoint string) {
	t.Helper()
	l, server := listen(t), grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return "http://" + l.Addr().String()
}

// A collector gets what was begun here, with the node's name.
func TestCollector(t *testing.T) {
	s := &stub{got: make(chan *collector.ExportTraceServiceRequest, 8)}
	p := provider(t, configured(served(t, s)))
	begun(t, p, 1)
	if err := p.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := (<-s.got).GetResourceSpans()[0]
	if name := got.GetScopeSpans()[0].GetSpans()[0].GetName(); name != "some span" {
		t.Errorf("got %q", name)
	}
	found := false
	for _, a := range got.GetResource().GetAttributes() {
		found = found || a.GetKey() == "service.instance.id" && a.GetValue().GetStringValue() == "c/2"
	}
	if !found {
		t.Errorf("resource is %v, want service.instance.id c/2", got.GetResource())
	}
	p.Close()
}

// away is a collector that refuses what it gets until it has been asked for so long.
type away struct {
	stub

	wait  time.Duration
	mu    sync.Mutex
	since time.Time
}

func (a *away) Export(ctx context.Context, r *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		a.since = time.Now()
	}
	if time.Since(a.since) < a.wait {
		return nil, status.Error(codes.Unavailable, "starting")
	}
	return a.stub.Export(ctx, r)
}

// A collector that is away for some seconds, as during its own restart, costs no spans.
func TestCollectorThatIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	a := &away{stub: stub{got: make(chan *collector.ExportTraceServiceRequest, 8)}, wait: 6 * time.Second}
	p := provider(t, configured(served(t, a)))
	begun(t, p, 1)
	if err := p.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if got, want := p.Stats(), (otlp.Stats{Sent: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A collector that accepts connections and says nothing does not keep a node from stopping: Close returns, though the
// collector never does. More spans than the queue holds are dropped, and nobody waits for them.
func TestCollectorThatHangs(t *testing.T) {
	l := listen(t)
	defer l.Close()
	p := provider(t, configured("http://"+l.Addr().String()))
	begun(t, p, 5000) // sooner than a batch is given up
	if got := p.Stats(); got.Overflowed != 5000-queueSpans || got.Sent != 0 {
		t.Errorf("got %+v, want all but %d spans dropped", got, queueSpans)
	}
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close waits for the collector")
	}
}
