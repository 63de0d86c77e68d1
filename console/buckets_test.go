package console

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// What a plot shows is within a tenth of what was observed, though the classic buckets of the nodes' histograms grow
// by a factor of two: promises of 9 s were shown as 5.2 s.
func TestQuantilesAreAccurate(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "promise_remaining_seconds", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14), // as node has it
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	})
	state := func() *dto.Histogram {
		var m dto.Metric
		if err := h.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetHistogram()
	}
	var then *dto.Histogram
	for _, seconds := range []float64{9, 5.3, 0.0101, 9.9, 0.3, 100, 0} {
		for range 50 {
			h.Observe(seconds)
		}
		now := state()
		for _, q := range []float64{0.01, 0.5, 0.99} {
			if got := quantile(q, now, then); math.Abs(got-seconds) > seconds/10+1e-9 {
				t.Errorf("quantile %v of %v s is %v", q, seconds, got)
			}
		}
		then = now
	}
	if got := quantile(0.5, state(), then); !math.IsNaN(got) {
		t.Errorf("of nothing it is %v", got)
	}
}

// For two states with different native buckets the classic buckets are used.
func TestQuantilesAcrossResolutions(t *testing.T) {
	now, then := histogram(0, 0, 10), histogram(0, 0, 5)
	for i, h := range []*dto.Histogram{now, then} {
		h.Schema, h.PositiveSpan = new(int32(i)), []*dto.BucketSpan{{Offset: new(int32(7)), Length: new(uint32(1))}}
		h.PositiveDelta = []int64{int64(*h.SampleCount)}
	}
	if got := quantile(0.5, now, then); got != 3 {
		t.Errorf("got %v, want 3", got)
	}
}
