package tree

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/tree"
)

// seen returns an entry as get prints it in JSON.
func seen(t *testing.T, path string) entryView {
	t.Helper()
	var v entryView
	if err := json.Unmarshal([]byte(clitest.Succeed(t, "get", path, "-o", "json", "--linearizable")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Temporary entries are created with their flags, and show their remaining time.
func TestEntriesThatEndByThemselves(t *testing.T) {
	clitest.StartTree(t)
	clitest.Succeed(t, "create", "/ttl", "x", "--ttl", "1h")
	clitest.Succeed(t, "create", "/empty", "--container")
	clitest.Succeed(t, "create", "/lasting")
	for path, want := range map[string]struct {
		kind string
		left time.Duration
	}{"/ttl": {"expiring", time.Hour}, "/empty": {"container", 5 * time.Minute}, "/lasting": {"persistent", 0}} {
		v := seen(t, path)
		if v.Stat.Kind != want.kind || (v.Stat.RemainingMS != nil) != (want.left > 0) {
			t.Errorf("%s: %+v", path, v.Stat)
			continue
		}
		text := clitest.Succeed(t, "get", path, "--stat")
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
	got := clitest.Succeed(t, "tree", "/")
	if !strings.Contains(got, "ttl  (expiring has ") || !strings.Contains(got, " left, 1B)") {
		t.Errorf("got %s", got)
	}
}

// An ephemeral entry with a lock-delay lives with the session of --hold, and goes at once when that is closed.
func TestAHeldEntryWithALockDelay(t *testing.T) {
	clitest.StartTree(t)
	held, stop := clitest.Follow(t, "create", "/lock", "me", "--ephemeral", "--keep-alive", "--lock-delay", "30s",
		"--timeout", "20s")
	var h struct {
		ID view.ID `json:"id"`
	}
	var made changeView
	held(&h)
	if held(&made); made.Stat.Kind != "ephemeral" || *made.Stat.Owner != h.ID {
		t.Errorf("got %+v of %+v", made.Stat, h)
	}
	if v := seen(t, "/lock"); v.Stat.Kind != "ephemeral" || v.Stat.RemainingMS != nil {
		t.Errorf("got %+v", v.Stat)
	}
	if code := stop(); code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	if code, _, stderr := clitest.Execute(t, "", "get", "/lock", "--linearizable"); code != cli.ExitFailed ||
		!strings.Contains(stderr, "NO_NODE") {
		t.Errorf("after the close: exit code %d, %s", code, stderr)
	}
}

func TestCreateRefusesFlags(t *testing.T) {
	for args, says := range map[string]string{
		"create /a --lock-delay 5s":                          "--lock-delay is for --ephemeral",
		"create /a --ephemeral --ttl 1h --keep-alive":        "if any flags in the group",
		"create /a --container --ttl 1h":                     "if any flags in the group",
		"create /a --ephemeral":                              "want --keep-alive",
		"create /a --ephemeral --keep-alive --lock-delay 2m": "lock_delay",
		"create /a --timeout 5s":                             "--timeout is for the session of --keep-alive",
		"acl set /a":                                         "one GRANT or more",
		"acl set /a world:anyone:r --inherit":                "--inherit",
	} {
		if code, _, stderr := clitest.Execute(t, "", strings.Fields(args)...); code != cli.ExitUsage ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s, want %q", args, code, stderr, says)
		}
	}
}

// An entry's own list can be removed: then that of the entry above counts again.
func TestAnAccessListIsInheritedAgain(t *testing.T) {
	clitest.StartTree(t)
	clitest.Succeed(t, "create", "/app", "--acl", "world:anyone:rwcda")
	clitest.Succeed(t, "create", "/app/a", "--acl", "world:anyone:ra")
	if code, _, stderr := clitest.Execute(t, "", "set", "/app/a", "x"); code != cli.ExitFailed ||
		!strings.Contains(stderr, "NO_PERMISSION") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	clitest.WantOutput(t, clitest.Succeed(t, "acl", "set", "/app/a", "--inherit", "--version", "0"), "list version 1")
	clitest.WantOutput(t, clitest.Succeed(t, "acl", "get", "/app/a"),
		"grant      world:anyone:cdrwa\ninherited  yes\nversion    1")
	clitest.Succeed(t, "set", "/app/a", "x")
}

// A transaction carries out one list of operations or the other, all or none.
func TestTransactions(t *testing.T) {
	clitest.StartTree(t)
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
		code, stdout, stderr := clitest.Execute(t, text, "txn", "-")
		if code != cli.ExitDone || stdout != want+"\n" {
			t.Fatalf("run %d: exit code %d, %q, %s", i, code, stdout, stderr)
		}
		if got, data := clitest.Succeed(t, "get", "/a/b"), []string{"\x00\xff", "z"}[i]; got != data {
			t.Errorf("run %d: data %q, want %q", i, got, data)
		}
	}
	if v := seen(t, "/a/b"); v.Stat.Kind != tree.Expiring.String() || v.Stat.ACLVersion != 1 {
		t.Errorf("got %+v", v.Stat)
	}
	if code, _, stderr := clitest.Execute(t, text, "txn", "-"); code != cli.ExitFailed ||
		!strings.Contains(stderr, "BAD_VERSION") {
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
		if code, _, stderr := clitest.Execute(t, text, "txn", "-"); code != cli.ExitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%q: exit code %d, %s, want %q", text, code, stderr, says)
		}
	}
}
