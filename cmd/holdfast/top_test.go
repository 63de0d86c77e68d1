package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTopOnce(t *testing.T) {
	o := startOperated(t)
	code, stdout, stderr := execute(t, "", "top", "--once", "--every", "100ms", "--endpoints", o.address+",127.0.0.1:1")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"node 2 leads term 3", "5 of 100 sessions", "! node 1 is not ready: no good round  (and ", "1 expiring",
		livingID.String(), "2 clients", "3 deaths",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if strings.ContainsRune(stdout, '\x1b') {
		t.Errorf("styles in a file: %q", stdout)
	}
	_, stdout, _ = execute(t, "", "top", "--once", "--every", "100ms", "-o", "json", "--endpoints",
		o.address+",127.0.0.1:1")
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
	startOperated(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"top", "-o", "json"}, exitUsage, "-o json: only together with --once"},
		{[]string{"top"}, exitUsage, "no terminal: want --once"},
		{[]string{"top", "--every", "99ms"}, exitUsage, "at least 100ms"},
		{[]string{"top", "--once", "--every", "100ms", "--endpoints", "127.0.0.1:1"}, exitUnreachable, "no node of"},
	} {
		code, _, stderr := execute(t, "", c.args...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, %q; want %d and %q", c.args, code, stderr, c.code, c.says)
		}
	}
}
