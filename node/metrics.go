package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/node/watchdog"
	"holdfast/transport/clientport"
	"holdfast/zk"
)

// metric is one figure of /metrics: its name without the prefix, its meaning, and how it is read.
type metric struct {
	name, help string
	// reason is the value of the label "reason", empty for a figure without the label.
	reason string
	// act is the value of the label "act", empty for a figure without the label.
	act string
	// alarm tells operators when to look after the node, empty for a figure that never says so alone.
	alarm string
	kind  prometheus.ValueType
	read  func(f *figures) float64
}

// figures are all values of one scrape.
type figures struct {
	node *Node
	// leader has the figures of the present term, led those of all terms that count.
	leader  leaderFigures
	led     leaderFigures
	client  clientFigures
	stalls  watchdog.StallStats
	replica replicaStats
	tree    clientport.TreeStatus
	// zookeeper is zero on a node that serves none of ZooKeeper's clients.
	zookeeper zk.Stats
}

// collector reads the node's figures when Prometheus scrapes them.
type collector struct {
	node    *Node
	metrics []metric
	descs   []*prometheus.Desc
}

func newCollector(n *Node) *collector {
	c := &collector{node: n, metrics: allMetrics()}
	for _, m := range c.metrics {
		labels := prometheus.Labels{}
		if m.reason != "" {
			labels["reason"] = m.reason
		}
		if m.act != "" {
			labels["act"] = m.act
		}
		c.descs = append(c.descs, prometheus.NewDesc("holdfast_"+m.name, m.help, nil, labels))
	}
	return c
}

// Describe sends the descriptions of all figures.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect sends the values of all figures.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	f := c.node.figures()
	for i, m := range c.metrics {
		to <- prometheus.MustNewConstMetric(c.descs[i], m.kind, m.read(f))
	}
}

func allMetrics() []metric {
	metrics := append(nodeMetrics(), turnoverMetrics()...)
	metrics = append(metrics, stallMetrics()...)
	metrics = append(metrics, replicaMetrics()...)
	metrics = append(metrics, roomMetrics()...)
	metrics = append(metrics, portMetrics()...)
	metrics = append(metrics, tlsMetrics()...)
	metrics = append(metrics, accessMetrics()...)
	metrics = append(metrics, tracingMetrics()...)
	metrics = append(metrics, leaderMetrics()...)
	return append(metrics, ledMetrics()...)
}

func gauge(name, help string, read func(f *figures) float64) metric {
	return metric{name: name, help: help, kind: prometheus.GaugeValue, read: read}
}

func counter(name, help string, read func(f *figures) float64) metric {
	return metric{name: name + "_total", help: help, kind: prometheus.CounterValue, read: read}
}

// of sets the reason.
func (m metric) of(reason string) metric { m.reason = reason; return m }

// when sets the alarm.
func (m metric) when(alarm string) metric { m.alarm = alarm; return m }

func seconds(d time.Duration) float64 { return d.Seconds() }

// truth is 1 for true.
func truth(b bool) float64 { //nolint:revive // flag-parameter: a figure is what the caller wants of the flag
	if b {
		return 1
	}
	return 0
}
