package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"holdfast/test/bubble"
)

// A touch costs what its histogram costs, and no memory.
func TestATouchAllocatesNothingToBeMeasured(t *testing.T) {
	timings := NewTimings()
	timings.ObserveTouch(time.Second) // the first of a native bucket
	if n := testing.AllocsPerRun(1000, func() { timings.ObserveTouch(time.Second) }); n != 0 {
		t.Errorf("%v allocations for each touch", n)
	}
}

// BenchmarkTouchMeasured is what measuring the rest of a promise adds to one touch message of a connection.
func BenchmarkTouchMeasured(b *testing.B) {
	timings := NewTimings()
	b.ReportAllocs()
	for b.Loop() {
		timings.ObserveTouch(7 * time.Second)
	}
}

// The delay of an event counts from the entry that made the change, while the node still knows when that was.
func TestWatchDelay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		timings := NewTimings()
		timings.ObserveEvent(7)
		timings.ApplyBegins(7, time.Now())
		time.Sleep(30 * time.Millisecond)
		timings.ObserveEvent(7)
		timings.ApplyBegins(7+1024, time.Now())
		timings.ObserveEvent(7)
		var got dto.Metric
		if err := timings.watchDelay.(prometheus.Metric).Write(&got); err != nil {
			t.Fatal(err)
		}
		if h := got.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 0.03 {
			t.Errorf("%d events took %v s, want one with 0.03", h.GetSampleCount(), h.GetSampleSum())
		}
	})
}
