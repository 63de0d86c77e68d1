package node

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"holdfast/test/bubble"
)

// Names, types, units and help texts follow the conventions of Prometheus.
func TestMetricsFollowTheConventions(t *testing.T) {
	n := start(t, alone(t))
	problems, err := testutil.GatherAndLint(newRegistry(n.Node))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, m := range allMetrics() {
		if m.help == "" {
			t.Errorf("%s has no help text", m.name) // the lint does not see that
		}
	}
}

// samples returns how many observations each histogram of a node has, by its name and its label.
func samples(t *testing.T, n *Node) map[string]*dto.Histogram {
	t.Helper()
	families, err := newRegistry(n).Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*dto.Histogram{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if h := m.GetHistogram(); h != nil && f.GetType() == dto.MetricType_HISTOGRAM && f.GetName() > "holdfast" {
				found[name] = h
			}
		}
	}
	return found
}

// The distributions of a cluster: what takes time is measured where it happens, in both kinds of buckets.
func TestTimings(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.agree(within)
		for range 10 {
			c.mustOpen(leads, within)
		}
		time.Sleep(time.Minute) // they expire
		c.agree(within)
		of := samples(t, leads.Node)
		for _, name := range []string{
			"holdfast_log_sync_seconds", "holdfast_apply_seconds", "holdfast_commit_seconds",
			"holdfast_expiry_lateness_seconds", "holdfast_round_trip_seconds 1", "holdfast_round_trip_seconds 2",
			"holdfast_round_trip_seconds 3",
		} {
			h := of[name]
			if h.GetSampleCount() == 0 || len(h.GetBucket()) == 0 || h.Schema == nil {
				t.Errorf("%s: %d samples, %d classic buckets, native: %v", name, h.GetSampleCount(), len(h.GetBucket()),
					h.Schema != nil)
			}
		}
		if got := of["holdfast_expiry_lateness_seconds"]; got.GetSampleCount() != 10 || got.GetSampleSum() > 10*2 {
			t.Errorf("10 sessions expired: %d samples with %v s in total", got.GetSampleCount(), got.GetSampleSum())
		}
		for _, other := range c.others(leads) {
			// Two ways of 1 ms to each other node, and one to the own.
			name := "holdfast_round_trip_seconds " + other.name[1:]
			if h := of[name]; h.GetSampleSum() < 0.002*float64(h.GetSampleCount()) {
				t.Errorf("%s: %v s in %d answers", name, h.GetSampleSum(), h.GetSampleCount())
			}
			if h := samples(t, other.Node)["holdfast_commit_seconds"]; h.GetSampleCount() != 0 {
				t.Errorf("node %s never led, and has proposed %d entries", other.name, h.GetSampleCount())
			}
		}
	})
}

// What a node counts as the leader goes on over its terms: it never goes back, and each term is counted once.
func TestCountersSurviveAChangeOfLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 2, nil) // leadership goes to and fro
		defer c.stop()
		leads := c.leader(within)
		c.agree(within)
		for range 3 {
			c.mustOpen(leads, within)
		}
		time.Sleep(time.Minute) // they expire
		led := &leads.roles.terms.tracker
		first := led.totals()
		if first.Expired != 3 || first.Rounds == 0 || first.Elapsed < 50*time.Second {
			t.Fatalf("in its first term the leader counts %+v", first)
		}
		if err := leads.HandOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		between := led.totals()
		time.Sleep(10 * time.Second)
		if now := led.totals(); now != between || now.Expired != 3 {
			t.Errorf("while another node leads the counters went on: %+v, then %+v", between, now)
		}
		next := c.leader(within)
		c.agree(within)
		c.mustOpen(next, within)
		time.Sleep(time.Minute)
		if got := next.roles.terms.tracker.totals(); got.Expired != 1 {
			t.Errorf("the next leader counts %d expired sessions, want 1", got.Expired)
		}
		if err := next.HandOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.leader(within) != leads {
			t.Fatal("the first leader does not lead again")
		}
		c.agree(within)
		c.mustOpen(leads, within)
		time.Sleep(time.Minute)
		now := led.totals()
		if now.Expired != 4 || now.Rounds <= between.Rounds || now.Elapsed < between.Elapsed+50*time.Second {
			t.Errorf("in its second term the leader counts %+v after %+v", now, between)
		}
	})
}

// A touch costs what its histogram costs, and no memory.
func TestATouchAllocatesNothingToBeMeasured(t *testing.T) {
	timings := newTimings()
	timings.touched(time.Second) // the first of a native bucket
	if n := testing.AllocsPerRun(1000, func() { timings.touched(time.Second) }); n != 0 {
		t.Errorf("%v allocations for each touch", n)
	}
}

// BenchmarkTouchMeasured is what measuring the rest of a promise adds to one touch message of a connection.
func BenchmarkTouchMeasured(b *testing.B) {
	timings := newTimings()
	b.ReportAllocs()
	for b.Loop() {
		timings.touched(7 * time.Second)
	}
}

// The delay of an event counts from the entry that made the change, while the node still knows when that was.
func TestWatchDelay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		timings := newTimings()
		timings.told(7)
		timings.landed.add(7, time.Now())
		time.Sleep(30 * time.Millisecond)
		timings.told(7)
		timings.landed.add(7+1024, time.Now())
		timings.told(7)
		var got dto.Metric
		if err := timings.watchDelay.(prometheus.Metric).Write(&got); err != nil {
			t.Fatal(err)
		}
		if h := got.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 0.03 {
			t.Errorf("%d events took %v s, want one with 0.03", h.GetSampleCount(), h.GetSampleSum())
		}
	})
}
