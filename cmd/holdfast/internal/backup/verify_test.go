package backup

import (
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
)

// A signal ends the verification of a backup, without a report that the backup is damaged.
func TestAnInterruptEndsAVerification(t *testing.T) {
	path := clitest.SilentPipe(t)
	begun := make(chan struct{})
	close(begun)
	code, stdout, stderr := clitest.Interrupt(t, nil, begun, "snapshot", "verify", path)
	if want := "holdfast: " + path + ": " + clitest.ErrInterrupt.Error() + "\n"; code != cli.ExitFailed || stdout != "" ||
		stderr != want {
		t.Errorf("exit code %d, %s%s, want %s", code, stdout, stderr, want)
	}
}
