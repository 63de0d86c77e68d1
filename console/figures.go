package console

import (
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// figure is one of the figures of a sample.
type figure struct {
	// name is that of the JSON form, from the name of a family of metrics.
	name, from string
	// read returns the figure's value.
	read reading
}

// reading says how a figure is read from a family of metrics.
type reading int

// Readings.
const (
	// value is the family's value, the sum over labels. rate is what it grew by in a second.
	value reading = iota
	rate
	// slowest is the 99th percentile of what was observed since the sample before, lowest the first percentile: in
	// milliseconds, and the worst over labels.
	slowest
	lowest
)

// figures is how many figures there are.
const figures = 18

// plotted returns the figures, in the order of their values in a sample.
func plotted() [figures]figure {
	return [...]figure{
		{"sessions", "sessions", value},
		{"attached", "sessions_attached", value},
		{"local", "sessions_local", value},
		{"opens", "applied_opens_total", rate},
		{"moves", "applied_moves_total", rate},
		{"closes", "applied_closes_total", rate},
		{"expiries", "applied_expiries_total", rate},
		{"kills", "applied_kills_total", rate},
		{"commit_ms", "commit_seconds", slowest},
		{"sync_ms", "log_sync_seconds", slowest},
		{"apply_ms", "apply_seconds", slowest},
		{"round_trip_ms", "round_trip_seconds", slowest},
		{"promise_ms", "promise_left_seconds", lowest},
		{"lateness_ms", "expiry_lateness_seconds", slowest},
		{"watch_ms", "watch_delay_seconds", slowest},
		{"reads", "client_tree_reads_total", rate},
		{"writes", "client_tree_writes_total", rate},
		{"events", "client_tree_events_total", rate},
	}
}

// gathered is what one scrape has: the families by their names without the prefix.
type gathered struct {
	at       time.Time
	families map[string]*dto.MetricFamily
}

func gatheredAt(at time.Time, families []*dto.MetricFamily) gathered {
	g := gathered{at: at, families: make(map[string]*dto.MetricFamily, len(families))}
	for _, f := range families {
		if name, ours := strings.CutPrefix(f.GetName(), "holdfast_"); ours {
			g.families[name] = f
		}
	}
	return g
}

// since returns the figures of a scrape, those over time since the one before.
func (g gathered) since(before gathered) sample {
	s := sample{at: g.at}
	span := g.at.Sub(before.at).Seconds()
	for i, f := range plotted() {
		now, then := g.families[f.from], before.families[f.from]
		s.values[i] = math.NaN()
		switch {
		case now == nil:
		case f.read == value:
			s.values[i] = total(now)
		case then == nil || span <= 0:
		case f.read == rate:
			s.values[i] = max(0, total(now)-total(then)) / span
		case f.read == slowest:
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

// worst returns the worst quantile of a family's histograms, of what they observed since then, in milliseconds. NaN
// stands for nothing observed.
func worst(now, then *dto.MetricFamily, q float64, of func(a, b float64) float64) float64 {
	found := math.NaN()
	for _, m := range now.GetMetric() {
		v := quantile(q, m.GetHistogram(), formerOf(then, m)) * 1000
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

// formerOf returns the histogram that had the labels of m, nil if none had.
func formerOf(then *dto.MetricFamily, m *dto.Metric) *dto.Histogram {
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

// quantile returns a quantile of what a histogram has observed since another state of it, evenly spread in each bucket.
// NaN stands for nothing observed.
func quantile(q float64, now, then *dto.Histogram) float64 {
	if now.GetSampleCount() <= then.GetSampleCount() {
		return math.NaN()
	}
	rank := q * float64(now.GetSampleCount()-then.GetSampleCount())
	below, lower := 0.0, 0.0
	for _, b := range observed(now, then) {
		if b.count > 0 && below+b.count >= rank && !math.IsInf(b.upper, 1) {
			return b.lower + (b.upper-b.lower)*(rank-below)/b.count
		}
		below, lower = below+b.count, b.lower
	}
	return lower // above all buckets
}
