package session

import (
	"strings"
	"testing"
	"time"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
)

func TestSessionExtend(t *testing.T) {
	o := fakenode.StartOperator(t)
	for _, span := range []time.Duration{10 * time.Minute, 0} {
		code, stdout, _ := clitest.Execute(t, "", "session", "extend", fakenode.LivingID.String(), "--for", span.String())
		if code != cli.ExitDone || !strings.Contains(stdout, fakenode.LivingID.String()) {
			t.Errorf("for %s: exit code %d, %q", span, code, stdout)
		}
	}
	if len(o.Extended) != 2 || o.Extended[0].GetSessionId() != uint64(fakenode.LivingID) ||
		o.Extended[0].GetFor().AsDuration() != 10*time.Minute || o.Extended[1].GetFor().AsDuration() != 0 {
		t.Errorf("asked for %v", o.Extended)
	}
}
