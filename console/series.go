package console

import (
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// series is one line of a plot.
type series struct {
	// name is the name in JSON, metric the name of a metric family.
	name, metric string
	// kind is how the value is computed.
	kind seriesKind
}

// seriesKind is how a series is computed from a metric family.
type seriesKind int

// Kinds of series.
const (
	// value is the family's value, summed over labels. rate is its growth per second.
	value seriesKind = iota
	rate
	// p99 is the 99th percentile of the observations since the previous sample, p1 the first: in milliseconds, the
	// worst over labels.
	p99
	p1
)

// seriesCount is the number of series.
const seriesCount = 18

// allSeries returns the series, in the order of their values in a sample.
func allSeries() [seriesCount]series {
	return [...]series{
		{"sessions", "sessions", value},
		{"attached", "sessions_attached", value},
		{"local", "sessions_local", value},
		{"opens", "applied_opens_total", rate},
		{"moves", "applied_moves_total", rate},
		{"closes", "applied_closes_total", rate},
		{"expiries", "applied_expiries_total", rate},
		{"kills", "applied_kills_total", rate},
		{"commit_ms", "commit_seconds", p99},
		{"sync_ms", "log_sync_seconds", p99},
		{"apply_ms", "apply_seconds", p99},
		{"round_trip_ms", "round_trip_seconds", p99},
		{"promise_ms", "promise_remaining_seconds", p1},
		{"lateness_ms", "expiry_lateness_seconds", p99},
		{"watch_ms", "watch_delay_seconds", p99},
		{"reads", "client_tree_reads_total", rate},
		{"writes", "client_tree_writes_total", rate},
		{"events", "client_tree_events_total", rate},
	}
}

// scrape is one scrape: the metric families by name, without the prefix.
type scrape struct {
	at       time.Time
	families map[string]*dto.MetricFamily
}

func newScrape(at time.Time, families []*dto.MetricFamily) scrape {
	scraped := scrape{at: at, families: make(map[string]*dto.MetricFamily, len(families))}
	for _, f := range families {
		if name, ours := strings.CutPrefix(f.GetName(), "holdfast_"); ours {
			scraped.families[name] = f
		}
	}
	return scraped
}

// sampleSince returns the values at a scrape, with rates and percentiles since the previous scrape.
func (g scrape) sampleSince(before scrape) sample {
	s := sample{at: g.at}
	span := g.at.Sub(before.at).Seconds()
	for i, f := range allSeries() {
		now, then := g.families[f.metric], before.families[f.metric]
		s.values[i] = math.NaN()
		switch {
		case now == nil:
		case f.kind == value:
			s.values[i] = total(now)
		case then == nil || span <= 0:
		case f.kind == rate:
			s.values[i] = max(0, total(now)-total(then)) / span
		case f.kind == p99:
			s.values[i] = worst(now, then, 0.99, math.Max)
		default:
			s.values[i] = worst(now, then, 0.01, math.Min)
		}
	}
	return s
}

// total returns the sum of a family's gauges and counters.
func total(f *dto.MetricFamily) (sum float64) {
	for _, m := range f.GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum
}

// worst returns the worst quantile of a family's histograms over the observations since then, in milliseconds; NaN
// without observations.
func worst(now, then *dto.MetricFamily, q float64, of func(a, b float64) float64) float64 {
	found := math.NaN()
	for _, m := range now.GetMetric() {
		v := quantile(q, m.GetHistogram(), previousHistogram(then, m)) * 1000
		switch {
		case math.IsNaN(v):
		case math.IsNaN(found):
			found = v
		default:
			found = of(found, v)
		}
	}
	return found
}

// previousHistogram returns the histogram with the labels of m, nil if there is none.
func previousHistogram(then *dto.MetricFamily, m *dto.Metric) *dto.Histogram {
	for _, former := range then.GetMetric() {
		if sameLabels(former.GetLabel(), m.GetLabel()) {
			return former.GetHistogram()
		}
	}
	return nil
}

// sameLabels compares labels that are sorted by their names.
func sameLabels(a, b []*dto.LabelPair) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].GetName() != b[i].GetName() || a[i].GetValue() != b[i].GetValue() {
			return false
		}
	}
	return true
}

// quantile returns a quantile of a histogram's observations since an earlier state, assumed to be evenly spread in each
// bucket; NaN without observations.
func quantile(q float64, now, then *dto.Histogram) float64 {
	if now.GetSampleCount() <= then.GetSampleCount() {
		return math.NaN()
	}
	rank := q * float64(now.GetSampleCount()-then.GetSampleCount())
	below, lower := 0.0, 0.0
	for _, b := range bucketsSince(now, then) {
		if b.count > 0 && below+b.count >= rank && !math.IsInf(b.upper, 1) {
			return b.lower + (b.upper-b.lower)*(rank-below)/b.count
		}
		below, lower = below+b.count, b.lower
	}
	return lower // above all buckets
}
