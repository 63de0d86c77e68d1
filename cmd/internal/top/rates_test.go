package top

import (
	"math"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
)

// Rates are between two samples; a restarted node has none, and another node that has applied the same log serves
// instead.
func TestRates(t *testing.T) {
	m := begun()
	rateOf := func(r rate, want float64) {
		t.Helper()
		if got := m.rates.newest(r); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: %v a second, want %v", r.name(), got, want)
		}
	}
	rateOf(opens, 10)
	rateOf(expiries, 1)
	rateOf(closes, 0)
	rateOf(entries, 100)
	again := sample(4)
	again.Nodes[1].Status.Turnover = session.Turnover{}
	again.Nodes[0].Status.AppliedIndex -= 50 // behind
	again.Nodes[0].Status.Turnover.Opens -= 5
	m.Add(again)
	rateOf(opens, 10) // by the third
	for i := range again.Nodes {
		again.Nodes[i].Silent = "gone"
	}
	again.At = again.At.Add(time.Second)
	m.Add(again)
	rateOf(opens, math.NaN())
	m.Add(sample(9))
	rateOf(opens, math.NaN()) // nothing to compare with
	m.Add(sample(10))
	rateOf(opens, 10)
	if got := m.Rates(); got["tree_writes"] != 0 || got["opens"] != 10 || len(got) != int(rateCount) {
		t.Errorf("for programs: %v", got)
	}
	if got := sparks([]float64{math.NaN(), 0, 5, 10}, 6); got != "   ▁▅█" {
		t.Errorf("sparks: %q", got)
	}
	if got := sparks([]float64{9, 0, 0}, 2); got != "▁▁" {
		t.Errorf("sparks of nothing: %q", got)
	}
}

// The rings of rates are bounded.
func TestRatesAreBounded(t *testing.T) {
	m := New(time.Second)
	for i := range uint64(3 * history) {
		m.Add(sample(i))
	}
	if n := len(m.rates.values[opens]); n != history {
		t.Errorf("%d rates are kept, want %d", n, history)
	}
}

// An answer counts by its own time, however late others come. A node that catches up decides nothing.
func TestRatesOfSlowAndBackwardNodes(t *testing.T) {
	m := begun()
	slow := sample(4)
	slow.At = slow.At.Add(2 * time.Second) // the last node was waited for
	slow.Nodes[2].Silent = "no answer"
	m.Add(slow)
	if got := m.rates.newest(opens); got != 10 {
		t.Errorf("beside a silent node: %v a second, want 10", got)
	}
	behind := sample(6)
	behind.Nodes[2].Status.AppliedIndex = 900
	m.rates.before["n3:7400"] = Node{At: noon, Status: client.Status{Term: 7, Leader: 2, AppliedIndex: 1}}
	m.Add(behind)
	if got := m.rates.newest(entries); got != 100 {
		t.Errorf("beside a node that catches up: %v entries a second, want 100", got)
	}
}
