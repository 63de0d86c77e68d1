// Package otlp sends spans to an OpenTelemetry collector, in parallel with the node's own work: spans that do not fit
// into a bounded queue are dropped, and an absent collector costs only log lines.
package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/credentials"

	"holdfast/session"
)

// Config says where spans go.
type Config struct {
	Logger hclog.Logger
	// Endpoint is the URL of the collector: http or https, a host and a port. CA is the PEM file with its CAs; empty
	// for the system's.
	Endpoint, CA string
	// SampleRatio is the part of the traces beginning here that is kept, 0 to 1.
	SampleRatio float64
	// Cluster, Node and Version identify the sender.
	Cluster string
	Node    session.Node
	Version string
	// Exporter receives the spans instead of a collector.
	Exporter sdk.SpanExporter
}

// Provider makes spans and sends them.
type Provider struct {
	*sdk.TracerProvider
	queue *queue
}

// New returns a provider. It does not wait for a collector. The error names the wrong setting.
func New(cfg Config) (*Provider, error) {
	exporter := cfg.Exporter
	if exporter == nil {
		var err error
		if exporter, err = dial(cfg); err != nil {
			return nil, err
		}
	}
	q := &queue{}
	q.SpanProcessor = sdk.NewBatchSpanProcessor(newCounting(exporter, q, cfg.Logger), sdk.WithMaxQueueSize(queueSpans),
		sdk.WithMaxExportBatchSize(batchSpans), sdk.WithExportTimeout(retryFor))
	return &Provider{sdk.NewTracerProvider(
		sdk.WithSpanProcessor(q),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(cfg.SampleRatio))),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "holdfast"),
			attribute.String("service.namespace", cfg.Cluster),
			attribute.String("service.instance.id", fmt.Sprintf("%s/%d", cfg.Cluster, cfg.Node)),
			attribute.String("service.version", cfg.Version),
			attribute.Int("holdfast.node", int(cfg.Node)),
		)),
	), q}, nil
}

// Stats returns the counts of this provider's spans.
func (p *Provider) Stats() Stats { return p.queue.stats() }

// dial returns the exporter to the collector. It connects later, and reconnects.
func dial(cfg Config) (sdk.SpanExporter, error) {
	scheme, address, _ := strings.Cut(cfg.Endpoint, "://")
	o := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(address), otlptracegrpc.WithTimeout(retryFor),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 10 * time.Second, MaxElapsedTime: retryFor,
		}),
	}
	if scheme == "https" {
		trusted := &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.CA != "" {
			pem, err := os.ReadFile(cfg.CA)
			if err != nil {
				return nil, fmt.Errorf("reading trace_ca: %w", err)
			}
			trusted.RootCAs = x509.NewCertPool()
			if !trusted.RootCAs.AppendCertsFromPEM(pem) {
				return nil, &session.FieldError{Field: "trace_ca", Limit: "a PEM file with certificates"}
			}
		}
		o = append(o, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(trusted)))
	} else {
		o = append(o, otlptracegrpc.WithInsecure())
	}
	exporter := otlptracegrpc.NewUnstarted(o...)
	//nolint:forbidigo // it dials without waiting
	if err := exporter.Start(context.Background()); err != nil {
		return nil, fmt.Errorf("reaching trace_endpoint %s: %w", cfg.Endpoint, err)
	}
	return exporter, nil
}

// Close sends the remaining spans, but waits for the collector at most a second.
func (p *Provider) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait) //nolint:forbidigo // the last step of a stop
	defer cancel()
	_ = p.Shutdown(ctx) // an absent collector gets no more spans, and its failures were logged
}
