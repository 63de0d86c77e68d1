package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// prefix begins the name of each metric.
const prefix = "holdfast_"

// NewRegistry returns the registry for /metrics: the table, the timings, and the metrics of the Go runtime and the
// process. Each scrape calls read once.
func NewRegistry(t *Timings, read func() *Snapshot) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(read),
	)
	registry.MustRegister(t.collectors()...)
	return registry
}

// collector exposes [table].
type collector struct {
	read func() *Snapshot
	rows []exposed
}

// exposed is a series with its description for Prometheus.
type exposed struct {
	series
	kind prometheus.ValueType
	desc *prometheus.Desc
}

func newCollector(read func() *Snapshot) *collector {
	c := &collector{read: read}
	for _, m := range table() {
		for _, s := range m.series {
			c.rows = append(c.rows, exposed{s, m.kind, prometheus.NewDesc(prefix+m.name, m.help, nil, s.labels)})
		}
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		to <- r.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.read()
	for _, r := range c.rows {
		to <- prometheus.MustNewConstMetric(r.desc, r.kind, r.read(s))
	}
}
