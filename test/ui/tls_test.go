package ui

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/certs"
	"holdfast/test/timeout"
	"holdfast/transport/authz"
	"holdfast/transport/secure"
)

// secured has a cluster speak TLS everywhere.
func secured(ca *certs.CA, auth secure.Auth) func(cfg *config.Config) {
	return func(cfg *config.Config) {
		f := ca.Node(cfg.ClusterID, cfg.Node)
		cfg.TLS = config.TLS{
			Nodes: secure.Require, Clients: secure.Require, HTTP: secure.Require, Cert: f.Cert, Key: f.Key, CA: ca.File,
			ClientAuth: auth, HTTPAuth: auth,
		}
	}
}

// A page follows over TLS as it does without.
func TestOverTLS(t *testing.T) {
	c := begin(t, secured(certs.New(t), secure.AuthNone))
	b := openWith(t, "https://"+c.configs[0].Listen.HTTP, []chromedp.ExecAllocatorOption{
		chromedp.Flag("ignore-certificate-errors", true),
	})
	b.visit(c.url(0, ""))
	b.until(`document.getElementById("live").textContent === "Live"`)
	b.shows("No problems")
	b.visit(c.url(0, "members"))
	b.fill("/ui/freeze", "for", "7m")
	b.fill("/ui/freeze", "why", "a test")
	b.press("Freeze expiry…")
	b.press("Confirm")
	b.visit(c.url(0, ""))
	b.shows("Expiry is frozen for")
}

// With certificates the browser's own says who it is. The node cannot pass it on to others, and a page says so.
func TestCertificates(t *testing.T) {
	ca, foreign, dir := certs.New(t), certs.New(t), t.TempDir()
	name := func(who string) string {
		return "uri:" + secure.Name{Cluster: config.Default().ClusterID, Kind: secure.KindClient, Name: who}.URI().String()
	}
	file := filepath.Join(dir, "auth.yaml")
	lines := fmt.Sprintf("certificates:\n- {name: %q, roles: [reader]}\n- {name: %q, roles: [operator]}\n"+
		"- {name: %q, roles: [client, reader]}\n", name("anna"), name("otto"), name("carl"))
	timeout.Check(t, os.WriteFile(file, []byte(lines), 0o600))
	everywhere := secured(ca, secure.AuthRequire)
	c := begin(t, func(cfg *config.Config) {
		everywhere(cfg)
		cfg.Auth.Mode, cfg.Auth.File = authz.Certificates, file
		cfg.Auth.AuditFile = filepath.Join(dir, fmt.Sprint(cfg.Node, ".log"))
	})
	carl := ca.Client(config.Default().ClusterID, "carl")
	cl, err := client.New(client.Config{
		Endpoints: []string{c.configs[0].Listen.Client},
		TLS:       &client.TLS{CACert: ca.File, Cert: carl.Cert, Key: carl.Key},
	})
	timeout.Check(t, err)
	defer cl.Close() // the test is over
	opening, cancel := context.WithTimeout(t.Context(), startBound)
	defer cancel()
	s, err := cl.Open(opening, client.SessionOptions{Timeout: 20 * time.Second})
	timeout.Check(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	ask := func(by *certs.CA, who, method string, at int, page string, form url.Values) (int, string, error) {
		cfg := &tls.Config{RootCAs: roots}
		if who != "" {
			f := by.Client(config.Default().ClusterID, who)
			own, failed := tls.LoadX509KeyPair(f.Cert, f.Key)
			timeout.Check(t, failed)
			cfg.Certificates = []tls.Certificate{own}
		}
		browser := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}}
		defer browser.CloseIdleConnections()
		r, failed := http.NewRequestWithContext(t.Context(), method, c.url(at, page), strings.NewReader(form.Encode()))
		timeout.Check(t, failed)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, failed := browser.Do(r)
		if failed != nil {
			return 0, "", failed
		}
		defer answer.Body.Close() // it was read
		body, failed := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body), failed
	}
	of := "sessions/" + s.ID().String()
	kill := url.Values{"why": {"a test"}, "confirmed": {"yes"}}
	for _, tt := range []struct {
		who, method, page string
		form              url.Values
		code              int
		shows             string
	}{
		{"anna", "GET", "", nil, 200, "signed in as <b>" + name("anna") + "</b>"},
		{"anna", "GET", "members", nil, 200, "cannot forward browser certificates"},
		{"anna", "GET", of, nil, 200, "Why it is alive"},
		{"anna", "POST", of + "/kill", kill, 403, "operator"},
		{"nobody", "GET", "", nil, 401, "does not take the token or certificate"},
		{"otto", "POST", of + "/kill", kill, 200, "was killed"},
	} {
		code, shown, failed := ask(ca, tt.who, tt.method, 0, tt.page, tt.form)
		if failed != nil || code != tt.code || !strings.Contains(shown, tt.shows) {
			t.Errorf("%s %s by %q: %d, %v, want %d with %q:\n%s", tt.method, tt.page, tt.who, code, failed, tt.code, tt.shows, shown)
		}
	}
	for at := range c.nodes { // one of them leads, and does not say so at the others, which know it
		timeout.Until(t, waitBound, lookInterval, fmt.Sprintf("the overview of node %d knows a leader", at+1),
			func() (bool, string) {
				_, shown, failed := ask(ca, "anna", "GET", at, "", nil)
				return failed == nil && !strings.Contains(shown, "No leader is known: no writes"),
					fmt.Sprintf("%v\n%s", failed, shown)
			})
	}
	if code, _, failed := ask(ca, "", "GET", 0, "", nil); failed == nil {
		t.Errorf("without a certificate: %d", code)
	}
	if code, _, failed := ask(foreign, "otto", "GET", 0, "", nil); failed == nil {
		t.Errorf("with a certificate of another CA: %d", code)
	}
	if f, failed := cl.Get(t.Context(), s.ID()); failed != nil || f.Certificate == nil ||
		f.Certificate.Cause != session.CauseKilled || f.Certificate.Story.By != name("otto") {
		t.Errorf("the session: %+v, %v", f.Certificate, failed)
	}
	audit, err := os.ReadFile(filepath.Join(dir, "1.log"))
	if err != nil || !strings.Contains(string(audit), name("otto")) {
		t.Errorf("the audit has no word of it: %v\n%s", err, audit)
	}
}
