package node

// tracingMetrics describe what became of the spans of this node. They are 0 on a node that traces nothing.
func tracingMetrics() []metric {
	const dropped = "Spans that the collector did not get: the queue was full (queue), or the collector was away or " +
		"refused them (collector)."
	return []metric{
		counter("trace_spans_sent", "Spans that the collector at trace_endpoint has taken.",
			func(f *figures) float64 { return float64(f.node.options.traces.stats().Sent) }),
		counter("trace_spans_dropped", dropped,
			func(f *figures) float64 { return float64(f.node.options.traces.stats().Overflowed) }).of("queue").
			when("it rises: the collector is slow or away, or trace_sample_ratio is too high for it; the log says what the " +
				"collector answers (spans not sent)"),
		counter("trace_spans_dropped", dropped,
			func(f *figures) float64 { return float64(f.node.options.traces.stats().Refused) }).of("collector"),
	}
}
