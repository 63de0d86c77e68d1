package node

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/certs"
	"holdfast/transport/secure"
	"holdfast/transport/secure/issue"
)

// Names, types, units and help texts follow the conventions of Prometheus.
func TestMetricsFollowTheConventions(t *testing.T) {
	n := start(t, alone(t))
	problems, err := testutil.GatherAndLint(n.newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// samples returns how many observations each histogram of a node has, by its name and its label.
func samples(t *testing.T, n *Node) map[string]*dto.Histogram {
	t.Helper()
	families, err := n.newRegistry().Gather()
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
		led := leads.roles
		first := led.Totals()
		if first.Expired != 3 || first.Rounds == 0 || first.Elapsed < 50*time.Second {
			t.Fatalf("in its first term the leader counts %+v", first)
		}
		if err := leads.TransferLeadership(t.Context()); err != nil {
			t.Fatal(err)
		}
		between := led.Totals()
		time.Sleep(10 * time.Second)
		if now := led.Totals(); now != between || now.Expired != 3 {
			t.Errorf("while another node leads the counters went on: %+v, then %+v", between, now)
		}
		next := c.leader(within)
		c.agree(within)
		c.mustOpen(next, within)
		time.Sleep(time.Minute)
		if got := next.roles.Totals(); got.Expired != 1 {
			t.Errorf("the next leader counts %d expired sessions, want 1", got.Expired)
		}
		if err := next.TransferLeadership(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.leader(within) != leads {
			t.Fatal("the first leader does not lead again")
		}
		c.agree(within)
		c.mustOpen(leads, within)
		time.Sleep(time.Minute)
		now := led.Totals()
		if now.Expired != 4 || now.Rounds <= between.Rounds || now.Elapsed < between.Elapsed+50*time.Second {
			t.Errorf("in its second term the leader counts %+v after %+v", now, between)
		}
	})
}

// gaugeOf returns the value of a metric without labels.
func gaugeOf(t *testing.T, n *Node, name string) float64 {
	t.Helper()
	families, err := n.newRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// The metrics say when the node's own certificate and the first CA expire, the new moments after a reload, and 0
// without TLS: the alerts rest on them.
func TestMetricsOfCertificates(t *testing.T) {
	const own, ca = "holdfast_tls_certificate_expires_timestamp_seconds", "holdfast_tls_ca_expires_timestamp_seconds"
	bubble.Test(t, func(t *testing.T) {
		c := newSecureCluster(t, secure.Require)
		defer c.stop()
		c.serve()
		n := c.nodes[0]
		last := float64(certs.Always().To.Unix())
		if at, by := gaugeOf(t, n.Node, own), gaugeOf(t, n.Node, ca); at != last || by != last {
			t.Errorf("the certificate expires at %v, the CA at %v, want %v", at, by, last)
		}
		name := secure.NodeName(config.Default().ClusterID, 1)
		renewed := issue.Span{From: certs.Always().From, To: time.Now().AddDate(0, 2, 0)}
		c.ca.Replace(c.files[session.Node(1)], name, renewed, "n1")
		want := float64(renewed.To.Unix())
		c.eventually("node 1 has loaded its new certificate", within, func() bool { return gaugeOf(t, n.Node, own) == want })
		if by := gaugeOf(t, n.Node, ca); by != last {
			t.Errorf("the CA expires at %v, want %v", by, last)
		}
	})
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 1, nil)
		defer c.stop()
		if at, by := gaugeOf(t, c.nodes[0].Node, own), gaugeOf(t, c.nodes[0].Node, ca); at != 0 || by != 0 {
			t.Errorf("without TLS a certificate expires at %v, a CA at %v", at, by)
		}
	})
}
