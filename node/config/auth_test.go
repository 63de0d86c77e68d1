package config

import (
	"strings"
	"testing"

	"holdfast/transport/authz"
	"holdfast/transport/secure"
)

// A node that others reach does not start unless its settings say who may call it, or that everybody may. On loopback
// it needs no word.
func TestAuth(t *testing.T) {
	const loopback = "127.0.0.1:7400"
	for _, tt := range []struct {
		auth, file, client, http string
		wrong                    string
		warns                    bool
	}{
		{"", "", ":7400", ":7403", "auth: must be set, because client_listen :7400 is not on loopback", false},
		{"", "", loopback, "10.0.0.1:7403", "auth: must be set, because http_listen 10.0.0.1:7403 is not on loopback", false},
		{"", "", "n1:7400", "localhost:7403", "auth: must be set, because client_listen n1:7400", false},
		{"", "", loopback, "localhost:7403", "", false},
		{"", "", "[::1]:7400", "[::ffff:127.0.0.1]:7403", "", false},
		{"none", "", ":7400", ":7403", "", true},
		{"none", "", loopback, "127.0.0.1:7403", "", false},
		{"none", "a.yaml", loopback, "[::1]:7403", "auth_file a.yaml: must be empty unless auth is", false},
		{"tokens", "", ":7400", ":7403", "auth_file: must be set, because auth tokens needs it", false},
		{"certificates", "a.yaml", ":7400", ":7403", "auth certificates: must not be certificates with", false},
		{"tokens", "a.yaml", "127.0.0.1:7400", ":7403", "", false},
		{"tokens", "a.yaml", ":7400", "127.0.0.1:7403", "", true}, // over connections without TLS
		{"sometimes", "a.yaml", ":7400", ":7403", "auth sometimes: must be none, tokens, certificates or both", false},
	} {
		c := validConfig(t)
		c.Auth.File, c.Listen.Client, c.Listen.HTTP = tt.file, tt.client, tt.http
		c.Auth.Mode = authz.Mode(tt.auth)
		got, err := c.Complete()
		switch {
		case tt.wrong == "" && err != nil:
			t.Errorf("%+v: %v", tt, err)
		case tt.wrong != "" && (err == nil ||
			!strings.HasPrefix(strings.ReplaceAll(err.Error(), " (not set)", ""), tt.wrong)):
			t.Errorf("%+v: got %v", tt, err)
		case err == nil && tt.auth == "" && got.Auth.Mode != "none":
			t.Errorf("%+v: the mode is %q", tt, got.Auth.Mode)
		}
		if warned := err == nil && len(got.authWarnings()) > 0; warned != tt.warns {
			t.Errorf("%+v: warned %v", tt, warned)
		}
	}
}

// Further names are those of hosts, and only a node that authenticates nobody asks for them.
func TestHTTPAllowedHosts(t *testing.T) {
	for _, tt := range []struct {
		names, file string
		mode        authz.Mode
		wrong       string
	}{
		{"console.example.com,Proxy", "", "", ""},
		{"a.test,,b.test", "", "", "http_allowed_hosts a.test,,b.test: must be names of hosts"},
		{"http://a.test", "", "", "http_allowed_hosts http://a.test: must be names of hosts"},
		{"a.test", "a.yaml", authz.Tokens, "http_allowed_hosts a.test: must be empty unless auth is none"},
	} {
		c := validConfig(t)
		c.Auth = Auth{Mode: tt.mode, File: tt.file, HTTPAllowedHosts: tt.names}
		c.Listen.Client, c.Listen.HTTP = "127.0.0.1:7400", "127.0.0.1:7403"
		if _, err := c.Complete(); (err != nil) != (tt.wrong != "") ||
			err != nil && !strings.HasPrefix(err.Error(), tt.wrong) {
			t.Errorf("%+v: got %v", tt, err)
		}
	}
}

// ZooKeeper's clients are known by certificates or not at all.
func TestAuthOfZooKeepersPort(t *testing.T) {
	for _, tt := range []struct {
		auth, clients, clientAuth string
		wrong                     string
	}{
		{"tokens", "require", "optional", "zk_listen :7404: must be empty with auth tokens"},
		{"both", "off", "optional", "zk_listen :7404: must be empty with client_tls off"},
		{"both", "require", "none", "zk_listen :7404: must be empty with client_tls require"},
		{"both", "require", "optional", ""},
		{"certificates", "require", "require", ""},
	} {
		c := validConfig(t)
		c.Auth.Mode, c.Auth.File, c.Listen.ZooKeeper = authz.Mode(tt.auth), "a.yaml", ":7404"
		c.TLS.Clients, c.TLS.ClientAuth = secure.Mode(tt.clients), secure.Auth(tt.clientAuth)
		c.TLS.Cert, c.TLS.Key, c.TLS.CA = "c.pem", "c.key", "ca.pem"
		if tt.clients == "off" {
			c.TLS.Cert, c.TLS.Key, c.TLS.CA = "", "", ""
		}
		_, err := c.Complete()
		if tt.wrong == "" && err != nil || tt.wrong != "" &&
			(err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), " (not set)", ""), tt.wrong)) {
			t.Errorf("%+v: got %v", tt, err)
		}
	}
}
