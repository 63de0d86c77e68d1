package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/node/watchdog"
)

// metric is one figure of /metrics: its name without the prefix, its meaning, and where it is read.
type metric struct {
	name, help string
	// reason is the value of the label of that name; empty: the figure has none.
	reason string
	// alarm says to operators when a person should look; empty: the figure alone never says so.
	alarm string
	kind  prometheus.ValueType
	read  func(f *figures) float64
}

// figures are everything a scrape reads, read once.
type figures struct {
	node    *Node
	leader  leaderFigures
	client  clientFigures
	stalls  watchdog.StallStats
	replica replicaStats
}

// collector gives the node's figures to Prometheus when it asks.
type collector struct {
	node    *Node
	metrics []metric
	descs   []*prometheus.Desc
}

func newCollector(n *Node) *collector {
	c := &collector{node: n, metrics: allMetrics()}
	for _, m := range c.metrics {
		var labels prometheus.Labels
		if m.reason != "" {
			labels = prometheus.Labels{"reason": m.reason}
		}
		c.descs = append(c.descs, prometheus.NewDesc("holdfast_"+m.name, m.help, nil, labels))
	}
	return c
}

// Describe names the figures.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect reads the figures.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	f := c.node.figures()
	for i, m := range c.metrics {
		to <- prometheus.MustNewConstMetric(c.descs[i], m.kind, m.read(f))
	}
}

func allMetrics() []metric {
	metrics := nodeMetrics()
	metrics = append(metrics, stallMetrics()...)
	metrics = append(metrics, replicaMetrics()...)
	metrics = append(metrics, portMetrics()...)
	return append(metrics, leaderMetrics()...)
}

func gauge(name, help string, read func(f *figures) float64) metric {
	return metric{name: name, help: help, kind: prometheus.GaugeValue, read: read}
}

func counter(name, help string, read func(f *figures) float64) metric {
	return metric{name: name + "_total", help: help, kind: prometheus.CounterValue, read: read}
}

// of gives the figure a reason.
func (m metric) of(reason string) metric { m.reason = reason; return m }

// when gives the figure an alarm.
func (m metric) when(alarm string) metric { m.alarm = alarm; return m }

func seconds(d time.Duration) float64 { return d.Seconds() }

// truth is 1 for true.
func truth(b bool) float64 { //nolint:revive // flag-parameter: a figure is what the caller wants of the flag
	if b {
		return 1
	}
	return 0
}
