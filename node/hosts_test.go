package node

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/node/config"
	"holdfast/test/bubble"
	"holdfast/transport/authz"
)

// Where nobody has to say who they are, a browser is served under addresses and names that no stranger can have lead to
// the node.
func TestKnownHosts(t *testing.T) {
	open := config.Config{Node: 2, Peers: []config.Peer{
		{Node: 1, Raft: "n1.inside.test:7401", Peer: "n1.inside.test:7402", Client: "n1.outside.test:7400"},
		{Node: 2, Raft: "n2.inside.test:7401", Peer: "n2.inside.test:7402", Client: "N2.outside.test:7400"},
	}, Auth: config.Auth{Mode: authz.None, HTTPAllowedHosts: "console.test,Proxy.Test"}}
	closed := open
	closed.Auth = config.Auth{Mode: authz.Tokens}
	for _, tt := range []struct {
		cfg     config.Config
		host    string
		refused bool
	}{
		{open, "", false},
		{open, "localhost:7403", false},
		{open, "holdfast.localhost:7403", false},
		{open, "127.0.0.1:7403", false},
		{open, "[::1]:7403", false},
		{open, "[fe80::1]", false},
		{open, "192.168.3.4", false},
		{open, "node2:7403", false},
		{open, "n2.inside.test:7403", false},
		{open, "n2.outside.test.:7403", false},
		{open, "console.test", false},
		{open, "proxy.test:443", false},
		{open, "n1.inside.test:7403", true},
		{open, "strange.test:7403", true},
		{open, "console.test.strange.test", true},
		{open, "127.0.0.1.strange.test", true},
		{open, "localhost.strange.test:7403", true},
		{open, "1.2.3.4.5", true},
		{closed, "strange.test:7403", false},
	} {
		served := false
		h := knownHosts(&tt.cfg, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/freeze", http.NoBody)
		r.Host = tt.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if served == tt.refused || tt.refused != (w.Code == http.StatusMisdirectedRequest) {
			t.Errorf("auth %s, host %q: served %t with %d, want refused %t", tt.cfg.Auth.Mode, tt.host, served, w.Code,
				tt.refused)
		}
		if tt.refused && !strings.Contains(w.Body.String(), "http_allowed_hosts") {
			t.Errorf("host %q: %q does not say what helps", tt.host, w.Body)
		}
	}
}

// plainConsole answers every request.
type plainConsole struct{}

func (plainConsole) Run(context.Context) error { return nil }
func (plainConsole) Stop()                     {}

func (plainConsole) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "console")
}

// The HTTP port of a node refuses names that are not its own, for all but its health, which probes ask for.
func TestPagesAreServedUnderKnownHosts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 1, nil)
		defer c.stop()
		n := c.leader(within)
		if err := c.end(n); err != nil {
			t.Fatal(err)
		}
		c.console = func(ConsoleHost) Console { return plainConsole{} }
		c.start(n)
		c.leader(within)
		h := &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return c.Host("browser").Dial(ctx, n.name+":7403")
			},
			DisableKeepAlives: true,
		}}
		for url, want := range map[string]int{
			"http://n1:7403/ui/": http.StatusOK, "http://strange.test:7403/ui/": http.StatusMisdirectedRequest,
			"http://n1:7403/metrics": http.StatusOK, "http://strange.test:7403/metrics": http.StatusMisdirectedRequest,
			"http://strange.test:7403/healthz": http.StatusOK,
		} {
			r, err := h.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			if _ = r.Body.Close(); r.StatusCode != want {
				t.Errorf("%s: %s, want %d", url, r.Status, want)
			}
		}
	})
}
