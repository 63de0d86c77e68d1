package check

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// BenchmarkCheck checks a history as long as that of one run of the simulation: 200 sessions, 5 minutes, 200 touches
// each.
func BenchmarkCheck(b *testing.B) {
	var h []history.Event
	for i := range 100 {
		shift := session.ID(i << 20)
		for _, e := range good() {
			if e.Kind == history.AnswerReceived || e.Kind == history.Finished || e.Kind == history.NodeStarted {
				continue
			}
			if e.ID != 0 {
				e.ID += shift
			}
			e.Index += uint64(i * 10)
			h = append(h, e)
			for j := range 100 {
				if e.Kind == history.Touched {
					t := e
					t.At += time.Duration(j) * time.Millisecond
					h = append(h, t)
				}
			}
		}
	}
	h = sorted(append(h, beats("n1", 2, 20, 320, 1, 2, 3)...))
	for b.Loop() {
		Check(h, bounds())
	}
	b.ReportMetric(float64(len(h)), "events")
}
