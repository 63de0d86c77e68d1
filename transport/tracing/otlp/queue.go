package otlp

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

// Bounds of the queue for the collector, and of the wait of a stop.
const (
	queueSpans = 4096
	batchSpans = 512
	// retryFor bounds all attempts to send a batch together. Afterwards the batch is dropped.
	retryFor = 30 * time.Second
	// stopWait is the time that a stopping node waits for the collector to receive the remaining spans.
	stopWait = time.Second
	// logInterval bounds the log lines about a failing collector.
	logInterval = time.Minute
)

// Stats count spans since the start.
type Stats struct {
	// Sent counts spans that the collector accepted. Overflowed counts spans that did not fit into the queue. Refused
	// counts spans that the collector refused, or that did not reach it within their batch's time.
	Sent, Overflowed, Refused uint64
}

// queue bounds the spans that wait for the collector, and counts dropped spans. The processor behind it has a queue of
// the same size, which therefore is never full: it would drop spans without counting them. Safe for concurrent use.
type queue struct {
	sdk.SpanProcessor
	waiting                   atomic.Int64
	sent, overflowed, refused atomic.Uint64
}

// OnEnd queues a span.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > queueSpans {
		q.waiting.Add(-1)
		q.overflowed.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

func (q *queue) stats() Stats {
	return Stats{Sent: q.sent.Load(), Overflowed: q.overflowed.Load(), Refused: q.refused.Load()}
}

// counting is the queue's exporter: spans that it has sent, or has failed to send, no longer wait. It logs failures
// from time to time, instead of OpenTelemetry's global handler, which writes to stderr.
type counting struct {
	sdk.SpanExporter
	queue  *queue
	logger hclog.Logger
	often  rate.Sometimes
}

func newCounting(to sdk.SpanExporter, q *queue, logger hclog.Logger) *counting {
	return &counting{SpanExporter: to, queue: q, logger: logger, often: rate.Sometimes{Interval: logInterval}}
}

// ExportSpans sends spans.
func (c *counting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	count := int64(len(spans))
	defer c.queue.waiting.Add(-count)
	if err := c.SpanExporter.ExportSpans(ctx, spans); err != nil {
		c.queue.refused.Add(uint64(count))
		c.often.Do(func() { c.logger.Warn("spans not sent", "count", count, "error", err) })
		return nil
	}
	c.queue.sent.Add(uint64(count))
	return nil
}
