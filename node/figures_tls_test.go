package node

import (
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/certs"
	"holdfast/transport/secure"
	"holdfast/transport/secure/issue"
)

// gaugeOf returns the value of a metric without labels.
func gaugeOf(t *testing.T, n *Node, name string) float64 {
	t.Helper()
	families, err := newRegistry(n).Gather()
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
