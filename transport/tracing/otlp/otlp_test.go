package otlp_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"holdfast/transport/tracing/otlp"
)

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

func provider(t *testing.T, address string) *otlp.Provider {
	t.Helper()
	p, err := otlp.New(otlp.Config{
		Logger: hclog.NewNullLogger(), Endpoint: "http://" + address, SampleRatio: 1, Cluster: "c", Node: 2, Version: "v",
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A collector gets what was begun here, with the node's name.
func TestCollector(t *testing.T) {
	l := listen(t)
	s := &stub{got: make(chan *collector.ExportTraceServiceRequest, 8)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	p := provider(t, l.Addr().String())
	_, span := p.Tracer("test").Start(t.Context(), "some span")
	span.End()
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

// A collector that takes connections and says nothing does not keep a node from stopping: Close returns, though the
// collector never does. More spans than the queue holds are dropped, and nobody waits for them.
func TestCollectorThatHangs(t *testing.T) {
	l := listen(t)
	defer l.Close()
	p := provider(t, l.Addr().String())
	for range 20_000 {
		_, span := p.Tracer("test").Start(t.Context(), "some span")
		span.End()
	}
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close waits for the collector")
	}
}
