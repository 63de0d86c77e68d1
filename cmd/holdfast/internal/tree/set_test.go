package tree

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/keepalive"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/tree"
)

func TestTreeIsWritten(t *testing.T) {
	c := clitest.StartTree(t)
	_, tr := clitest.OpenTree(t, c)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte(binary), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.WantOutput(t, clitest.Succeed(t, "create", "/app/blob", "@"+file, "--parents"), "/app/blob")
	clitest.WantOutput(t, clitest.Succeed(t, "create", "/app/job-", "@@x", "-s", "--ttl", "1h"), "/app/job-0000000001")
	if e, err := tr.Get(t.Context(), "/app/job-0000000001"); err != nil || string(e.Data) != "@x" ||
		e.Stat.Kind != tree.Expiring {
		t.Errorf("got %+v, %v", e, err)
	}
	if e, err := tr.Get(t.Context(), "/app/blob"); err != nil || string(e.Data) != binary {
		t.Errorf("got %q, %v", e.Data, err)
	}
	code, stdout, stderr := clitest.Execute(t, binary, "set", "/app/job-0000000001", "-", "--version", "0")
	if code != cli.ExitDone || stdout != "version 1\n" {
		t.Errorf("exit code %d, %s, %s", code, stdout, stderr)
	}
	if e, err := tr.Get(t.Context(), "/app/job-0000000001"); err != nil || string(e.Data) != binary {
		t.Errorf("got %q, %v", e.Data, err)
	}
	clitest.WantOutput(t, clitest.Succeed(t, "acl", "set", "/app/blob", "world:anyone:rw", "ip:10.0.0.0/8:cd"),
		"list version 1")
	clitest.WantOutput(t, clitest.Succeed(t, "acl", "get", "/app/blob"),
		"grant      world:anyone:rw\ngrant      ip:10.0.0.0/8:cd\ninherited  no\nversion    1")
	clitest.Succeed(t, "quota", "set", "/app", "--entries", "3", "--soft-bytes", "1000")
	clitest.WantOutput(t, clitest.Succeed(t, "quota", "get", "/app"), fmt.Sprintf(
		"            ENTRIES  BYTES\nused        3        %d\nlimit       3        -\nsoft limit  -        1000",
		2*len(binary)))
	for _, tt := range []struct{ args, says string }{
		{"create /app/more", "create /app"},
		{
			"create /app/blob",
			"create /app/blob: the entry exists already (NODE_EXISTS)\n\"holdfast set /app/blob\" replaces its data.",
		},
		{"set /app/blob x --version 7", "set /app/blob: version is 0, expected 7 (BAD_VERSION)\n"},
		{"rm /app", "delete /app: has 2 children (NOT_EMPTY)\n\"holdfast rm -r /app\" removes the entry and all below it."},
		{"rm /zookeeper", "delete /zookeeper: belongs to the tree itself (RESERVED)\n"},
		{
			"create /none/a",
			"create: parent /none does not exist (NO_PARENT)\n" +
				"Create /none first, or pass --parents to \"holdfast create\".\n",
		},
	} {
		code, _, stderr := clitest.Execute(t, "", strings.Fields(tt.args)...)
		if code != cli.ExitFailed || !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: exit code %d, %s", tt.args, code, stderr)
		}
	}
	clitest.Succeed(t, "rm", "/zookeeper/quota/app/zookeeper_limits")
	clitest.Succeed(t, "quota", "set", "/app", "--entries", "4")
	clitest.Succeed(t, "create", "/app/more")
	if code, _, stderr := clitest.Execute(t, "", "create", "/app/evenmore"); code != cli.ExitFailed ||
		!strings.Contains(stderr, "QUOTA") {
		t.Errorf("after the limits were removed by hand and set again: exit code %d, %s", code, stderr)
	}
	clitest.Succeed(t, "quota", "rm", "/app")
	clitest.WantOutput(t, clitest.Succeed(t, "rm", "-r", "/app"), "removed 4 entries")
}

// The text of a transaction may be longer than what the transaction holds.
func TestTextOfALargeTransaction(t *testing.T) {
	data := make([]byte, tree.MaxRequest-1000)
	for form, given := range map[string]string{
		"base64":  `{"then": [{"op": "set", "path": "/a", "data": "` + base64.StdEncoding.EncodeToString(data) + `"}]}`,
		"escapes": `{"then": [{"op": "set", "path": "/a", "text": "` + strings.Repeat(`\u0000`, len(data)) + `"}]}`,
	} {
		text, err := readTransaction(t.Context(), "-", strings.NewReader(given))
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		x, err := parseTransaction(text)
		if set, ok := x.Then[0].(tree.Set); err != nil || !ok || !bytes.Equal(set.Data, data) {
			t.Errorf("%s: %v", form, err)
		}
	}
	if _, err := readTransaction(t.Context(), "-", strings.NewReader(strings.Repeat(" ", maxText+1))); err == nil {
		t.Error("a text without an end was read")
	}
}

// More than a DeleteTree may remove goes piece by piece.
func TestRemovesMoreThanFitsAtOnce(t *testing.T) {
	c := clitest.StartTree(t)
	_, tr := clitest.OpenTree(t, c)
	const parents, each = 3, 4000
	for p := range parents {
		parent := tree.Create{Path: fmt.Sprintf("/big/%d", p), Kind: tree.Persistent, Parents: true}
		x := tree.Transaction{Then: []tree.Op{parent}}
		for i := range each {
			x.Then = append(x.Then, tree.Create{Path: fmt.Sprintf("/big/%d/%d", p, i), Kind: tree.Persistent})
		}
		if _, err := tr.Transact(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tr.DeleteTree(t.Context(), "/big"); !cli.IsRefused(err, tree.OverLimit) {
		t.Fatalf("got %v: the test needs more entries", err)
	}
	clitest.WantOutput(t, clitest.Succeed(t, "rm", "-r", "/big", "--call-timeout", "30s"),
		fmt.Sprintf("removed %d entries", parents*(each+1)+1))
}

// A page of entries with long paths is more than a transaction may hold.
func TestRemovesLongPaths(t *testing.T) {
	c := clitest.StartTree(t)
	_, tr := clitest.OpenTree(t, c)
	parent := "/" + strings.Repeat("x", 1100)
	create := tree.Transaction{Then: []tree.Op{tree.Create{Path: parent, Kind: tree.Persistent}}}
	for i := range tree.MaxPage {
		one := tree.Create{Path: fmt.Sprintf("%s/%d", parent, i), Kind: tree.Persistent}
		if create.Then = append(create.Then, one); len(create.Then) < tree.MaxPage/2 {
			continue
		}
		if _, err := tr.Transact(t.Context(), create); err != nil {
			t.Fatal(err)
		}
		create.Then = nil
	}
	if _, err := tr.Transact(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	env := cli.NewEnv(nil, io.Discard, io.Discard)
	env.Cluster.CallTimeout = time.Minute
	r := remover{env: env, tree: tr, reportedAt: time.Now()}
	if err := r.below(t.Context(), parent); err != nil || r.removed != tree.MaxPage {
		t.Errorf("removed %d entries: %v", r.removed, err)
	}
}

// A write that took effect is no failure, though its session does not close: a caller who sees a failure writes again.
func TestAWriteIsDoneThoughItsSessionStays(t *testing.T) {
	clitest.StartTree(t)
	var stderr strings.Builder
	env := cli.NewEnv(nil, io.Discard, &stderr)
	env.Cluster.Endpoints, env.Cluster.CallTimeout = []string{os.Getenv(cli.EndpointsVariable)}, time.Minute
	err := env.Write(t.Context(), func(ctx context.Context, tr *client.Tree) error {
		_, err := tr.Create(ctx, "/made", nil, client.CreateOptions{})
		env.Cluster.CallTimeout = time.Nanosecond // too short for the close
		return err
	})
	if err != nil || !strings.Contains(stderr.String(), "holdfast: close session 0x") {
		t.Errorf("got %v, and complaints: %s", err, stderr.String())
	}
	clitest.Succeed(t, "get", "/made")
}

// A service that registers itself is seen, and so is its end, with the certificate.
func TestWatchesSeeAServiceComeAndGo(t *testing.T) {
	clitest.StartTree(t)
	watched, stopWatch := clitest.Follow(t, "watch", "--recursive", "/app")
	sessions, stopSessions := clitest.Follow(t, "session", "watch")
	var e eventView
	var told struct {
		Event       string            `json:"event"`
		Session     *view.Session     `json:"session"`
		Certificate *view.Certificate `json:"certificate"`
	}
	if watched(&e); e.Event != "watching" {
		t.Fatalf("got %+v", e)
	}
	if sessions(&told); told.Event != "watching" {
		t.Fatalf("got %+v", told)
	}
	held, stopHold := clitest.Follow(t, "create", "/app/web", "host", "-e", "-p", "--keep-alive", "--label", "service=web")
	var h keepalive.Opened
	var made changeView
	held(&h)
	if held(&made); made.Path != "/app/web" || *made.Stat.Owner != h.ID {
		t.Errorf("got %+v of %+v", made, h)
	}
	for _, path := range []string{"/app", "/app/web"} {
		if watched(&e); e.Event != "created" || e.Path != path {
			t.Errorf("got %+v, want %s created", e, path)
		}
	}
	if sessions(&told); told.Event != "opened" || told.Session.ID != h.ID {
		t.Errorf("got %+v", told)
	}
	if code := stopHold(); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	if watched(&e); e.Event != "deleted" || e.Path != "/app/web" {
		t.Errorf("got %+v", e)
	}
	if sessions(&told); told.Event != "ended" || told.Certificate.ID != h.ID || told.Certificate.Ephemerals != 1 {
		t.Errorf("got %+v, %+v", told, told.Certificate)
	}
	if code := stopWatch(); code != cli.ExitDone {
		t.Errorf("watch: exit code %d", code)
	}
	if code := stopSessions(); code != cli.ExitDone {
		t.Errorf("session watch: exit code %d", code)
	}
}

// An entry of a session whose token is given belongs to that session.
func TestEphemeralsOfATokenBelongToItsSession(t *testing.T) {
	c := clitest.StartTree(t)
	s, err := c.Open(t.Context(), client.SessionOptions{Timeout: 60e9})
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := clitest.Execute(t, cli.FormatToken(s.Token()), "create", "/e", "-e", "--token-file",
		"-"); code != cli.ExitDone {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	if e, err := c.Tree(client.Linearizable()).Get(t.Context(), "/e"); err != nil || e.Stat.Owner != uint64(s.ID()) {
		t.Errorf("got %+v, %v", e, err)
	}
}
