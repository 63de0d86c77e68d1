package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/transport/secure"
)

// tlsMetrics describe the certificates of the node, and who was refused for theirs.
func tlsMetrics() []metric {
	all := []metric{
		gauge("tls_certificate_expires_timestamp_seconds",
			"When the certificate of this node expires (tls_cert), in seconds since 1970; 0 without TLS.",
			func(f *figures) float64 { return unix(f.node.ports.security.stats().Expires) }).
			when("it is less than 14 days ahead, and not 0: renew the certificate"),
		gauge("tls_ca_expires_timestamp_seconds",
			"When the first CA of tls_ca and tls_client_ca expires, in seconds since 1970; 0 without TLS.",
			func(f *figures) float64 { return unix(f.node.ports.security.stats().CAExpires) }).
			when("it is less than 60 days ahead, and not 0: rotate the CA"),
		counter("tls_reloads", "Times that changed files of TLS were loaded.",
			func(f *figures) float64 { return float64(f.node.ports.security.stats().Reloads) }),
		counter("tls_reload_failures", "Times that changed files of TLS could not be used.",
			func(f *figures) float64 { return float64(f.node.ports.security.stats().Failures) }).
			when("it rises: the log says why; the former certificates are in use"),
		counter("tls_connections_closed", "Connections that ended because a reload no longer accepts their certificate.",
			func(f *figures) float64 { return float64(f.node.ports.security.stats().Closed) }),
	}
	for _, port := range []struct {
		name string
		of   func(*security) *secure.Server
	}{
		{"raft", func(s *security) *secure.Server { return s.raft }},
		{"peer", func(s *security) *secure.Server { return s.peers }},
		{"client", func(s *security) *secure.Server { return s.client }},
		{"http", func(s *security) *secure.Server { return s.http }},
		{"zookeeper", func(s *security) *secure.Server { return s.zookeeper }},
	} {
		all = append(all, metric{
			name: "tls_refused_total", kind: prometheus.CounterValue, reason: port.name,
			help:  "Connections refused before they said anything, by port: for TLS, for its lack, or for a certificate.",
			alarm: "it rises: the log names both sides and the setting",
			read:  func(f *figures) float64 { return float64(port.of(f.node.ports.security).Refused()) },
		})
	}
	return all
}

// unix is 0 for the zero time.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
