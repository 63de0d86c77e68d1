package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holdfast/tree"
)

// seen returns an entry as get prints it in JSON.
func seen(t *testing.T, path string) entryView {
	t.Helper()
	var v entryView
	if err := json.Unmarshal([]byte(succeed(t, "get", path, "-o", "json", "--linearizable")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Entries that end by themselves are made as their flags say, and show how long they have left.
func TestEntriesThatEndByThemselves(t *testing.T) {
	startTree(t)
	succeed(t, "create", "/ttl", "x", "--ttl", "1h")
	succeed(t, "create", "/empty", "--container")
	succeed(t, "create", "/lasting")
	for path, want := range map[string]struct {
		kind string
		left time.Duration
	}{"/ttl": {"expiring", time.Hour}, "/empty": {"container", 5 * time.Minute}, "/lasting": {"persistent", 0}} {
		v := seen(t, path)
		if v.Stat.Kind != want.kind || (v.Stat.RemainingMS != nil) != (want.left > 0) {
			t.Errorf("%s: %+v", path, v.Stat)
			continue
		}
		text := succeed(t, "get", path, "--stat")
		if want.left == 0 {
			if !strings.Contains(text, "remaining          -") {
				t.Errorf("%s:\n%s", path, text)
			}
			continue
		}
		left := time.Duration(*v.Stat.RemainingMS) * time.Millisecond
		if left > want.left || left < want.left-30*time.Second || strings.Contains(text, "remaining          -") {
			t.Errorf("%s has %v left, want nearly %v:\n%s", path, left, want.left, text)
		}
	}
	got := succeed(t, "tree", "/")
	if !strings.Contains(got, "ttl  (expiring has ") || !strings.Contains(got, " left, 1B)") {
		t.Errorf("got %s", got)
	}
}

// An ephemeral entry with a lock-delay lives with the session of --hold, and goes at once when that is closed.
func TestAHeldEntryWithALockDelay(t *testing.T) {
	startTree(t)
	held, stop := lines(t, "create", "/lock", "me", "--ephemeral", "--hold", "--linger", "30s", "--timeout", "20s")
	var h heldView
	var made changeView
	held(&h)
	if held(&made); made.Stat.Kind != "ephemeral" || *made.Stat.Owner != h.ID {
		t.Errorf("got %+v of %+v", made.Stat, h)
	}
	if v := seen(t, "/lock"); v.Stat.Kind != "ephemeral" || v.Stat.RemainingMS != nil {
		t.Errorf("got %+v", v.Stat)
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	if code, _, stderr := execute(t, "", "get", "/lock", "--linearizable"); code != exitFailed ||
		!strings.Contains(stderr, "NO_NODE") {
		t.Errorf("after the close: exit code %d, %s", code, stderr)
	}
}

func TestCreateRefusesFlags(t *testing.T) {
	for args, says := range map[string]string{
		"create /a --linger 5s":                    "--linger is for --ephemeral",
		"create /a --ephemeral --ttl 1h --hold":    "if any flags in the group",
		"create /a --container --ttl 1h":           "if any flags in the group",
		"create /a --ephemeral":                    "want --hold",
		"create /a --ephemeral --hold --linger 2m": "linger",
		"create /a --timeout 5s":                   "--timeout is for the session of --hold",
		"acl set /a":                               "one GRANT or more",
		"acl set /a world:anyone:r --inherit":      "--inherit",
	} {
		if code, _, stderr := execute(t, "", strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s, want %q", args, code, stderr, says)
		}
	}
}

// An entry's own list can be taken away: then that of the entry above counts again.
func TestAnAccessListIsInheritedAgain(t *testing.T) {
	startTree(t)
	succeed(t, "create", "/app", "--acl", "world:anyone:rwcda")
	succeed(t, "create", "/app/a", "--acl", "world:anyone:ra")
	if code, _, stderr := execute(t, "", "set", "/app/a", "x"); code != exitFailed ||
		!strings.Contains(stderr, "NO_PERMISSION") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	wantOutput(t, succeed(t, "acl", "set", "/app/a", "--inherit", "--version", "0"), "list version 1")
	wantOutput(t, succeed(t, "acl", "get", "/app/a"), "grant      world:anyone:cdrwa\ninherited  yes\nversion    1")
	succeed(t, "set", "/app/a", "x")
}

// A transaction carries out one list of operations or the other, all or none.
func TestTransactions(t *testing.T) {
	startTree(t)
	const text = `{
		"if": [{"path": "/a", "property": "missing"}],
		"then": [
			{"op": "create", "path": "/a/b", "data": "AP8=", "parents": true, "ttl": "1h", "acl": ["world:anyone:rwcda"]},
			{"op": "create", "path": "/a/", "sequential": true, "container": true},
			{"op": "check", "path": "/a/b", "version": 0}
		],
		"else": [{"op": "acl", "path": "/a/b"}, {"op": "set", "path": "/a/b", "text": "z", "version": 0},
			{"op": "delete-tree", "path": "/a/0000000001"}]}`
	for i, want := range []string{
		"all conditions hold\ncreate /a/b\ncreate /a/0000000001\ncheck /a/b",
		"a condition does not hold\nset ACL /a/b\nset /a/b\ndelete tree /a/0000000001",
	} {
		code, stdout, stderr := execute(t, text, "txn", "-")
		if code != exitDone || stdout != want+"\n" {
			t.Fatalf("run %d: exit code %d, %q, %s", i, code, stdout, stderr)
		}
		if got, data := succeed(t, "get", "/a/b"), []string{"\x00\xff", "z"}[i]; got != data {
			t.Errorf("run %d: data %q, want %q", i, got, data)
		}
	}
	if v := seen(t, "/a/b"); v.Stat.Kind != tree.Expiring.String() || v.Stat.ACLVersion != 1 {
		t.Errorf("got %+v", v.Stat)
	}
	if code, _, stderr := execute(t, text, "txn", "-"); code != exitFailed || !strings.Contains(stderr, "BAD_VERSION") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestTransactionsThatAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		`{"then": [{"op": "move", "path": "/a"}]}`:                                   `then[0]: op "move"`,
		`{"then": [{"op": "delete", "path": "/a", "text": "x"}]}`:                    "want only path version",
		`{"else": [{"op": "set", "path": "/a", "text": "x", "data": ""}]}`:           "else[0]: want data or text",
		`{"then": [{"op": "set", "path": "/a", "version": -1}]}`:                     "want 0 or more",
		`{"then": [{"op": "create", "path": "/a", "ttl": "soon"}]}`:                  `ttl "soon"`,
		`{"then": [{"op": "create", "path": "/a", "ttl": "1s", "container": true}]}`: "not both",
		`{"then": [{"op": "create", "path": "relative"}]}`:                           "begin with a slash",
		`{"if": [{"path": "/a", "property": "version", "is": "~", "value": 3}]}`:     `if[0]: is "~"`,
		`{"if": [{"path": "/a", "property": "version", "is": "="}]}`:                 "want a value",
		`{"if": [{"path": "/a", "property": "size", "is": "=", "value": 3}]}`:        `property "size"`,
		`{"if": [{"path": "/a", "property": "exists", "value": 1}]}`:                 "no is and no value",
		`{"if": [{"path": "/a", "property": "created", "is": "=", "value": "3.x"}]}`: "if[0]",
		`{"if": [{"path": "/a", "property": "version", "is": "=", "value": "x"}]}`:   `value "x"`,
		`{"when": []}`: `unknown field "when"`,
		`{} {}`:        "more follows",
		`{`:            "transaction",
	} {
		if code, _, stderr := execute(t, text, "txn", "-"); code != exitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%q: exit code %d, %s, want %q", text, code, stderr, says)
		}
	}
}
