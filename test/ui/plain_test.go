package ui

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/timeout"
	"holdfast/tree"
)

// What pages say without a browser: nothing of entries that a caller may not read, later pages of a tree do not follow,
// and the content of an address that leads elsewhere is what is there.
func TestPagesWithoutABrowser(t *testing.T) {
	c := begin(t, nil)
	cl, ctx := c.connectAs(t, client.Config{Digests: []string{"owner:secret"}}), t.Context()
	s, err := cl.Open(ctx, client.SessionOptions{Timeout: 30 * time.Second})
	timeout.Check(t, err)
	create := func(path string, o client.CreateOptions) {
		t.Helper()
		o.Parents = true
		if _, err := s.Tree().Create(ctx, path, []byte("data"), o); err != nil {
			t.Fatal(err)
		}
	}
	own := tree.ACL{tree.Grant{Scheme: tree.Auth, Permissions: tree.All}}
	const lock = "/locks/backup/lock-0000000000"
	create(lock, client.CreateOptions{Kind: tree.Ephemeral, ACL: own})
	create("/locks/secret", client.CreateOptions{ACL: own})
	for i := range 101 {
		create(fmt.Sprintf("/many/%03d", i), client.CreateOptions{})
	}
	ask := func(page string, header http.Header) (string, *url.URL) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(0, page), nil)
		timeout.Check(t, err)
		r.Header = header
		answer, err := http.DefaultClient.Do(r)
		timeout.Check(t, err)
		defer answer.Body.Close() // it was read
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v\n%s", page, answer.Status, err, body)
		}
		return string(body), answer.Request.URL
	}
	for _, tt := range []struct{ page, shows, not string }{
		{"locks", "holds or lock-delay", "session ended"},
		{"locks", "1 entry is hidden", "/locks/secret"},
		{"locks?root=/locks/secret", "1 entry is hidden", "No locks here"},
		{"tree?path=" + lock, "You have no permission to read this entry.", "None."},
		{"tree?path=/many", `data-reload-on="log"`, ">100<"},
		{"tree?path=/many&after=099", `data-reload-on=""`, ">099<"},
	} {
		if body, _ := ask(tt.page, nil); !strings.Contains(body, tt.shows) || strings.Contains(body, tt.not) {
			t.Errorf("%s does not have %q, or has %q:\n%s", tt.page, tt.shows, tt.not, body)
		}
	}
	body, at := ask("sessions?id="+s.ID().String(), http.Header{"Holdfast-Part": {"1"}})
	if !strings.HasSuffix(at.Path, "/"+s.ID().String()) || !strings.Contains(body, "Why it is alive") ||
		strings.Contains(body, "<html") {
		t.Errorf("the content of a session by its id is that of %v:\n%s", at, body)
	}
}
