package otlp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"holdfast/session"
	"holdfast/test/certs"
	"holdfast/transport/tracing/otlp"
)

// A collector with TLS gets spans from a node that trusts its CA, and nothing from one that trusts another CA.
func TestCollectorWithTLS(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	files := ca.Node("c", 1)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	s := &stub{got: make(chan *collector.ExportTraceServiceRequest, 8)}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13,
	})))
	collector.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	cfg := configured("https://" + l.Addr().String())
	cfg.CA = ca.File
	p := provider(t, cfg)
	begun(t, p, 3)
	if err := p.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.Stats(); got != (otlp.Stats{Sent: 3}) {
		t.Fatalf("got %+v, want 3 spans sent", got)
	}
	if got := len((<-s.got).GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()); got != 3 {
		t.Errorf("the collector got %d spans, want 3", got)
	}
	p.Close()

	for name, change := range map[string]func(*otlp.Config){
		"a node that trusts another CA": func(cfg *otlp.Config) { cfg.CA = other.File },
		"a node without TLS":            func(cfg *otlp.Config) { cfg.Endpoint = "http://" + l.Addr().String() },
	} {
		change(&cfg)
		p := provider(t, cfg)
		begun(t, p, 1)
		p.Close() // a second after which nothing is sent any more
		if got := p.Stats(); got.Sent != 0 {
			t.Errorf("%s: got %+v, want nothing sent", name, got)
		}
	}
	if len(s.got) != 0 {
		t.Errorf("the collector got %v of strangers", <-s.got)
	}
}

// A CA file that cannot be read, or has no certificate, is refused with the name of the setting.
func TestCAOfTheCollectorIsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	certs.Write(t, empty, []byte("no certificate"))
	cfg := configured("https://127.0.0.1:4317")
	cfg.CA = empty
	_, err := otlp.New(cfg)
	if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "trace_ca" {
		t.Errorf("a file without a certificate: %v", err)
	}
	cfg.CA += ".missing"
	if _, err = otlp.New(cfg); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "trace_ca") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// flaky accepts spans, or returns err.
type flaky struct {
	*tracetest.InMemoryExporter
	mu  sync.Mutex
	err error // guarded by mu
}

func (f *flaky) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	return f.InMemoryExporter.ExportSpans(ctx, spans)
}

// Spans that the collector refuses are counted, and the log says why, once. They free their place in the queue.
func TestSpansThatAreRefused(t *testing.T) {
	var log bytes.Buffer
	f := &flaky{InMemoryExporter: tracetest.NewInMemoryExporter(), err: errors.New("over its quota")}
	cfg := configured("")
	cfg.Exporter, cfg.Logger = f, hclog.New(&hclog.LoggerOptions{Output: &log})
	p := provider(t, cfg)
	const rounds = 3
	for range rounds {
		begun(t, p, queueSpans/2)
		if err := p.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.mu.Lock()
	f.err = nil
	f.mu.Unlock()
	begun(t, p, queueSpans/2)
	if err := p.ForceFlush(t.Context()); err != nil { // Close does not wait for long
		t.Fatal(err)
	}
	p.Close()
	if got, want := p.Stats(), (otlp.Stats{Sent: queueSpans / 2, Refused: rounds * queueSpans / 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if said := strings.Count(log.String(), "over its quota"); said != 1 {
		t.Errorf("the log says %d times why, want once:\n%s", said, log.String())
	}
}

// A request whose caller's trace is not sampled has no span, and counts nowhere.
func TestSpansThatAreNotSampled(t *testing.T) {
	cfg := configured("")
	cfg.Exporter, cfg.SampleRatio = tracetest.NewInMemoryExporter(), 0
	p := provider(t, cfg)
	begun(t, p, 2*queueSpans)
	p.Close()
	if got := p.Stats(); got != (otlp.Stats{}) {
		t.Errorf("got %+v, want nothing", got)
	}
}
