package lock

import (
	"encoding/json"
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
)

func TestElect(t *testing.T) {
	clitest.StartTree(t)
	first := clitest.StartProgram(t, "elect", "echo $HOLDFAST_LOCK; cat", "--value", "10.0.0.7:80")
	first.Expect("/elections/job/candidate-0000000000")
	code, _, stderr := clitest.Execute(t, "", "elect", "job", "--wait", "0", "--", "true")
	if code != cli.ExitFailed || !strings.Contains(stderr, "held by another caller") ||
		!strings.Contains(stderr, "elect show") {
		t.Errorf("--wait 0: exit code %d, %s", code, stderr)
	}
	code, _, stderr = clitest.Execute(t, "", "elect", "job", "--wait", "50ms", "--", "true")
	if code != cli.ExitFailed || !strings.Contains(stderr, "not released within --wait 50ms") ||
		!strings.Contains(stderr, "elect show") {
		t.Errorf("--wait 50ms: exit code %d, %s", code, stderr)
	}
	var all []contenderView
	if err := json.Unmarshal([]byte(clitest.Succeed(t, "elect", "show", "job", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Holder != "10.0.0.7:80" || all[0].State != "holds" || all[0].As != "candidate" {
		t.Errorf("got %+v", all)
	}
	if got := clitest.Succeed(t, "elect", "show", "/elections/job"); !strings.Contains(got, "VALUE") {
		t.Errorf("got %s", got)
	}
	first.End(0)
	clitest.StartProgram(t, "elect", "exit 8", "--wait", "0").End(8)
	if got := clitest.Succeed(t, "elect", "show", "job"); strings.Contains(got, "candidate") {
		t.Errorf("got %s", got)
	}
	for args, says := range map[string]string{
		"elect job true": "NAME -- COMMAND", "elect / -- true": "below /", "elect show": "one NAME",
		"elect job sh -c true": `come after "--"`,
	} {
		if code, _, stderr := clitest.Execute(t, "", strings.Fields(args)...); code != cli.ExitUsage ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}
