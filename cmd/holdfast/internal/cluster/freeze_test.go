package cluster

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/session/words"
)

func TestClusterFreezeAndThaw(t *testing.T) {
	o := fakenode.StartOperator(t)
	code, stdout, _ := clitest.Execute(t, "", "cluster", "freeze", "--for", "30m", "--reason", "new switches")
	if code != cli.ExitDone || !strings.Contains(stdout, "frozen for 30m") ||
		o.Frozen.GetFor().AsDuration() != 30*time.Minute || o.Frozen.GetWhy() != "new switches" {
		t.Errorf("exit code %d, %q, asked for %v", code, stdout, o.Frozen)
	}
	if code, stdout, _ := clitest.Execute(t, "", "cluster", "thaw"); code != cli.ExitDone || o.Frozen != nil ||
		!strings.Contains(stdout, "thawed") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	for _, wrong := range [][]string{
		{"cluster", "freeze"},
		{"cluster", "freeze", "--for", "25h"},
		{"cluster", "freeze", "--for", "1us"},
		{"cluster", "thaw", "x"},
	} {
		if code, _, stderr := clitest.Execute(t, "", wrong...); code != cli.ExitUsage || stderr == "" {
			t.Errorf("%v: exit code %d, %q", wrong, code, stderr)
		}
	}
	if o.Frozen != nil {
		t.Errorf("after wrong usage the node was asked for %v", o.Frozen)
	}
}

// The explanation of a session and the status of a cluster say that nothing expires, and who wanted that.
func TestFreezesAreShown(t *testing.T) {
	text := strings.Join(words.Alive(new(fakenode.Living()), &session.Vigil{
		Leader: 3, Term: 7, Frozen: 20 * time.Minute, Kept: time.Hour, Remaining: time.Hour + time.Second,
	}), "\n")
	clitest.Contains(t, text, "froze expiry for 20m", "does not expire within 1h", "expires in 1h0m1s")
	o := fakenode.StartOperator(t)
	o.Freezing = &holdfastv1.Freezing{Left: durationpb.New(90 * time.Second), By: "ops\x1b[31m", Why: "new switches"}
	_, stdout, _ := clitest.Execute(t, "", "cluster", "status")
	clitest.Contains(t, stdout, "\nfrozen for 1m30s more", `by ops\x1b[31m`, `"new switches"`, "nothing expires")
	_, stdout, _ = clitest.Execute(t, "", "cluster", "status", "-o", "json")
	clitest.Contains(t, stdout, `"left_ms": 90000`, `"why": "new switches"`)
}
