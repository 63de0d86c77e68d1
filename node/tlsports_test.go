package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/secure"
)

// refusedAt returns how many callers a port has refused for TLS, as the metrics say.
func refusedAt(t *testing.T, n *Node, port string) float64 {
	t.Helper()
	families, err := n.newRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "holdfast_tls_handshakes_refused_total" && m.GetLabel()[0].GetValue() == port {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Errorf("no metric of what port %s has refused", port)
	return 0
}

// Each port tells plain from TLS, says so to both sides, and counts it.
func TestPortsTellPlainFromTLS(t *testing.T) {
	for _, mode := range []secure.Mode{secure.Off, secure.Require} {
		t.Run(string(mode), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newSecureClusterWith(t, mode, func(cfg *config.Config) { cfg.Listen.ZooKeeper = ":7404" })
				defer c.stop()
				c.serve()
				theirs, says := secure.Off, "it requires TLS, and this side speaks without TLS"
				if mode == secure.Off {
					theirs, says = secure.Require, "it speaks without TLS"
				}
				counted := map[string]string{"7400": "client", "7402": "peer", "7403": "http", "7404": "zookeeper"}
				for port, setting := range map[string]string{
					"7400": "client_tls", "7402": "node_tls", "7403": "http_tls", "7404": "client_tls",
				} {
					before := refusedAt(t, c.nodes[0].Node, counted[port])
					dials := c.dialled("stranger", c.files[2], theirs)
					conn, err := dials(t.Context(), "n1:"+port)
					if err == nil {
						_, err = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
						if err == nil {
							_, err = conn.Read(make([]byte, 512))
						}
						_ = conn.Close()
					}
					if !errors.Is(err, session.ErrTLS) || !strings.Contains(err.Error(), says) {
						t.Errorf("port %s: %v, want %q", port, err, says)
					}
					c.eventually("the node says so", within, func() bool {
						return strings.Contains(c.nodes[0].log.String(), setting+" is "+string(mode)+" here")
					})
					c.eventually("port "+port+" counts it", within, func() bool {
						return refusedAt(t, c.nodes[0].Node, counted[port]) == before+1
					})
				}
				web := &http.Client{Transport: &http.Transport{
					DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
						return c.Host("stranger").Dial(ctx, address)
					}, DisableKeepAlives: true,
				}}
				answer, err := web.Get("http://n1:7403/healthz")
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if got, want := answer.StatusCode, map[secure.Mode]int{secure.Off: 200, secure.Require: 400}[mode]; got != want {
					t.Errorf("plain HTTP at http_tls %s: %d, want %d", mode, got, want)
				}
			})
		})
	}
}
