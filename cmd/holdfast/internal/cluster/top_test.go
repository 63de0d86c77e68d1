package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
)

func TestTopOnce(t *testing.T) {
	o := fakenode.StartOperator(t)
	code, stdout, stderr := clitest.Execute(t, "", "top", "--once", "--interval", "100ms", "--endpoints",
		o.Address+",127.0.0.1:1")
	if code != cli.ExitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"node 2 leads term 3", "5 of 100 sessions", "! node 1 is not ready: no good round  (and ", "1 expiring",
		fakenode.LivingID.String(), "2 clients", "3 deaths",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if strings.ContainsRune(stdout, '\x1b') {
		t.Errorf("styles in a file: %q", stdout)
	}
	_, stdout, _ = clitest.Execute(t, "", "top", "--once", "--interval", "100ms", "-o", "json", "--endpoints",
		o.Address+",127.0.0.1:1")
	var got topView
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if len(got.Nodes) != 2 || got.Nodes[0].Leader != 2 || got.Nodes[1].Error == "" || got.Nodes[0].RoundTripMS <= 0 ||
		len(got.Expiring) == 0 {
		t.Errorf("for programs: %s", stdout)
	}
	if v, known := got.Rates["opens"]; !known || v != 0 {
		t.Errorf("rates %v", got.Rates)
	}
}

func TestTopIsRefused(t *testing.T) {
	fakenode.StartOperator(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"top", "-o", "json"}, cli.ExitUsage, "-o json: only together with --once"},
		{[]string{"top"}, cli.ExitUsage, "not a terminal: use --once"},
		{[]string{"top", "--interval", "99ms"}, cli.ExitUsage, "at least 100ms"},
		{[]string{"top", "--once", "--interval", "100ms", "--endpoints", "127.0.0.1:1"}, cli.ExitUnreachable, "no node of"},
	} {
		code, _, stderr := clitest.Execute(t, "", c.args...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, %q; want %d and %q", c.args, code, stderr, c.code, c.says)
		}
	}
}
