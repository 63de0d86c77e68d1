package ui

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"holdfast/auth"
	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/authfile"
	"holdfast/test/timeout"
	"holdfast/transport/authz"
	"holdfast/tree"
)

// Who has no token sees nothing, a reader sees everything and cannot act, an operator acts and is in the audit with
// name and address, and no page of another origin acts in the operator's name. No token is ever shown.
func TestRoles(t *testing.T) {
	dir := t.TempDir()
	roles := map[string]auth.Roles{
		"anna": auth.Reader, "otto": auth.Operator, "carl": auth.Client, "cleo": auth.Client | auth.Reader, "ada": auth.Admin,
	}
	file, made, tokens := filepath.Join(dir, "auth.yaml"), authfile.Make(roles), make(map[string]string)
	authfile.Write(t, file, made, roles)
	for name, token := range made {
		tokens[name] = token.Secret()
	}
	c := begin(t, func(cfg *config.Config) {
		cfg.Auth.Mode, cfg.Auth.File = authz.Tokens, file
		cfg.Auth.AuditFile = filepath.Join(dir, fmt.Sprint(cfg.Node, ".log"))
	})
	cl, err := client.New(client.Config{
		Endpoints: []string{c.configs[0].Listen.Client}, Token: client.StaticToken(tokens["cleo"]), TokenWithoutTLS: true,
	})
	timeout.Check(t, err)
	defer cl.Close() // the test is over
	s, err := cl.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
	timeout.Check(t, err)
	of := "sessions/" + s.ID().String()
	_, err = s.Tree().Create(t.Context(), "/locks/backup/lock-0000000000", []byte("token-holder"),
		client.CreateOptions{Kind: tree.Ephemeral, Parents: true})
	timeout.Check(t, err)
	for who, acts := range map[string]bool{"anna": false, "otto": false, "cleo": true, "ada": true} {
		if changes := seesTheTree(t, c, tokens[who]); changes != acts {
			t.Errorf("the page of the tree offers changes to %s: %v, want %v", who, changes, acts)
		}
	}
	ask := func(who, method, page string, form url.Values, origin string) (int, string) {
		r, failed := http.NewRequestWithContext(t.Context(), method, c.url(0, page), strings.NewReader(form.Encode()))
		timeout.Check(t, failed)
		if who != "" {
			r.SetBasicAuth("whoever", tokens[who])
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if origin != "" {
			r.Header.Set("Origin", origin)
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		answer, failed := http.DefaultClient.Do(r)
		timeout.Check(t, failed)
		defer answer.Body.Close() // it was read
		body, failed := io.ReadAll(answer.Body)
		timeout.Check(t, failed)
		for _, token := range tokens {
			if strings.Contains(string(body), token) {
				t.Errorf("%s of %s shows a token", page, who)
			}
		}
		if policy := answer.Header.Get("Content-Security-Policy"); answer.StatusCode == http.StatusOK &&
			(!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe")) {
			t.Errorf("%s has the policy %q", page, policy)
		}
		return answer.StatusCode, answer.Header.Get("WWW-Authenticate") + string(body)
	}
	kill := url.Values{"why": {"a test"}, "confirmed": {"yes"}}
	for _, tt := range []struct {
		who, method, page string
		form              url.Values
		origin            string
		code              int
		shows             string
	}{
		{"", "GET", "", nil, "", 401, `Basic realm=`},
		{"", "GET", "events", nil, "", 401, `Basic realm=`},
		{"carl", "GET", "sessions", nil, "", 403, "reader"},
		{"carl", "GET", "settings", nil, "", 403, "reader"},
		{"carl", "GET", "samples", nil, "", 403, "reader"},
		{"carl", "GET", "tree", nil, "", 403, "reader"},
		{"anna", "GET", "", nil, "", 200, "signed in as <b>token:anna</b>"},
		{"anna", "GET", "tree", nil, "", 200, "locks"},
		{"anna", "GET", "locks", nil, "", 200, "token-holder"},
		{"otto", "GET", "tree", nil, "", 200, "locks"},
		{"otto", "GET", "locks", nil, "", 200, "token-holder"},
		{"anna", "GET", of, nil, "", 200, "Why it is alive"},
		{"anna", "POST", of + "/kill", kill, "", 403, "operator"},
		{"otto", "GET", of, nil, "", 200, "Kill session"},
		{"otto", "POST", of + "/kill", kill, "http://elsewhere.example", 403, "cross-origin"},
		{"otto", "POST", "tree/create", url.Values{"path": {"/"}, "name": {"x"}, "confirmed": {"yes"}}, "", 403, "client"},
		{"otto", "POST", of + "/kill", kill, "", 200, "was killed"},
		{"otto", "GET", of, nil, "", 200, "token:otto"},
		{"anna", "POST", "members/1/transfer", url.Values{"confirmed": {"yes"}}, "", 403, "operator"},
		{"otto", "POST", "members/1/remove", url.Values{"confirmed": {"yes"}}, "", 403, "admin"},
		{"otto", "POST", "members", url.Values{"node": {"9"}, "host": {"h"}, "confirmed": {"yes"}}, "", 403, "admin"},
		{"ada", "POST", "members/3/demote", url.Values{"confirmed": {"no"}}, "", 200, "Demote node 3?"},
		{"ada", "POST", "members/9/demote", nil, "", 400, "must be the number of a member"},
		{"ada", "POST", "members", url.Values{"node": {"9"}}, "", 400, "must be HOST:PORT"},
		{"ada", "GET", "members", nil, "", 200, "Remove node 1"},
	} {
		code, shown := ask(tt.who, tt.method, tt.page, tt.form, tt.origin)
		if code != tt.code || !strings.Contains(shown, tt.shows) {
			t.Errorf("%s %s by %q from %q: %d, want %d with %q:\n%s", tt.method, tt.page, tt.who, tt.origin, code, tt.code,
				tt.shows, shown)
		}
	}
	if _, shown := ask("anna", "GET", of, nil, ""); strings.Contains(shown, "Kill session") {
		t.Error("a reader is offered an action")
	}
	for who, offered := range map[string][2]bool{"anna": {false, false}, "otto": {true, false}, "ada": {true, true}} {
		_, shown := ask(who, "GET", "members", nil, "")
		if got := [2]bool{strings.Contains(shown, "Transfer leadership to"), strings.Contains(shown, "Add node…")}; got != offered {
			t.Errorf("%s is offered to transfer leadership and to add nodes: %v, want %v", who, got, offered)
		}
	}
	if f, failed := cl.Get(t.Context(), s.ID()); failed != nil || f.Certificate == nil ||
		f.Certificate.Cause != session.CauseKilled {
		t.Errorf("the session: %+v, %v", f.Certificate, err)
	}
	audit, err := os.ReadFile(filepath.Join(dir, "1.log"))
	timeout.Check(t, err)
	done := 0
	for line := range strings.Lines(string(audit)) {
		if strings.Contains(line, "kill sessions") && strings.Contains(line, "token:otto") &&
			strings.Contains(line, "127.0.0.1:") && strings.Contains(line, "done") {
			done++
		}
	}
	if done != 1 {
		t.Errorf("%d lines of the act, want 1:\n%s", done, audit)
	}
}

// seesTheTree looks at the pages about the tree in a browser with a token: they show it and follow it. It reports
// whether they offer changes.
func seesTheTree(t *testing.T, c *cluster, token string) (changes bool) {
	t.Helper()
	b := open(t, c.configs[0].Listen.HTTP)
	basic := base64.StdEncoding.EncodeToString([]byte("whoever:" + token))
	_, err := chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
		Headers: network.Headers{"Authorization": "Basic " + basic},
	})
	timeout.Check(t, err)
	b.visit(c.url(0, "locks"))
	b.shows("token-holder")
	b.until(`document.getElementById("live").textContent === "Live"`)
	b.visit(c.url(0, "tree?path=/locks/backup"))
	b.shows("lock-0000000000")
	b.until(`document.getElementById("live").textContent === "Live"`)
	return value[bool](b, `!!document.querySelector('form[action="/ui/tree/create"]')`)
}
