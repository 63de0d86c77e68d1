// Package metrics defines the metrics of a node's /metrics: one table of gauges and counters, which are read from a
// [Snapshot], and the histograms of [Timings]. It knows no node: its user fills the snapshot.
package metrics
