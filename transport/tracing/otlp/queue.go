package otlp

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

// Bounds of what waits for a collector, and of how long a stop waits for it.
const (
	queueSpans = 4096
	batchSpans = 512
	// retryFor bounds all attempts to send a batch together. After that it is dropped.
	retryFor = 30 * time.Second
	// stopWait is how long a node that stops waits for the collector to take what is left.
	stopWait = time.Second
	// logInterval bounds the log lines about a collector that takes nothing.
	logInterval = time.Minute
)

// Stats count spans since the start.
type Stats struct {
	// Sent are those that the collector took. Overflowed did not fit into the queue, and Refused did not reach the
	// collector within the time for their batch, or it refused them.
	Sent, Overflowed, Refused uint64
}

// queue bounds the spans that wait for the collector, and counts those that are dropped. The processor behind it has a
// queue of the same size, which therefore never is full: it drops without a word. Safe for concurrent use.
type queue struct {
	sdk.SpanProcessor
	waiting                   atomic.Int64
	sent, overflowed, refused atomic.Uint64
}

// OnEnd takes a span.
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

// counting is the queue's exporter: what it has sent, or has failed to send, waits no longer. It logs failures from
// time to time, in the place of OpenTelemetry's global handler, which writes to stderr.
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
