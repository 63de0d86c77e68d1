package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestElect(t *testing.T) {
	startTree(t)
	first := startUnder(t, "elect", "echo $HOLDFAST_LOCK; cat", "--value", "10.0.0.7:80")
	first.hears("/elections/job/candidate-0000000000")
	code, _, stderr := execute(t, "", "elect", "job", "--wait", "0", "--", "true")
	if code != exitFailed || !strings.Contains(stderr, "held by somebody else") ||
		!strings.Contains(stderr, "elect show") {
		t.Errorf("--wait 0: exit code %d, %s", code, stderr)
	}
	code, _, stderr = execute(t, "", "elect", "job", "--wait", "50ms", "--", "true")
	if code != exitFailed || !strings.Contains(stderr, "not free within --wait 50ms") ||
		!strings.Contains(stderr, "elect show") {
		t.Errorf("--wait 50ms: exit code %d, %s", code, stderr)
	}
	var all []contenderView
	if err := json.Unmarshal([]byte(succeed(t, "elect", "show", "job", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Holder != "10.0.0.7:80" || all[0].State != "holds" || all[0].As != "candidate" {
		t.Errorf("got %+v", all)
	}
	if got := succeed(t, "elect", "show", "/elections/job"); !strings.Contains(got, "VALUE") {
		t.Errorf("got %s", got)
	}
	first.ends(0)
	startUnder(t, "elect", "exit 8", "--wait", "0").ends(8)
	if got := succeed(t, "elect", "show", "job"); strings.Contains(got, "candidate") {
		t.Errorf("got %s", got)
	}
	for args, says := range map[string]string{
		"elect job true": "NAME -- COMMAND", "elect / -- true": "below /", "elect show": "one NAME",
		"elect job sh -c true": `come after "--"`,
	} {
		if code, _, stderr := execute(t, "", strings.Fields(args)...); code != exitUsage ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}
