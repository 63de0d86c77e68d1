package ports

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/node/config"
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
