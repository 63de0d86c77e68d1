package main

import (
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
)

// The first signal ends every command that waits for its standard input, and nothing was done then.
func TestAnInterruptEndsTheWaitForInput(t *testing.T) {
	c := clitest.StartTree(t)
	s, tr := clitest.OpenTree(t, c)
	l := clitest.StartProgram(t, "lock", "echo runs; exec cat")
	l.Expect("runs")
	for _, line := range []string{
		"set /a -", "create /a -", "txn -", "session touch --token-file -", "session upgrade --token-file -",
		"session close --token-file -", "session keep-alive --token-file -", "create /a -e --token-file -", "lock break job",
		"session kill " + s.ID().String(), "set /a @/dev/stdin", "txn /dev/stdin",
	} {
		stdin := clitest.NewSilence(t)
		begun := stdin.Asked
		if strings.Contains(line, "/dev/stdin") {
			line = strings.ReplaceAll(line, "/dev/stdin", clitest.SilentPipe(t))
			begun = make(chan struct{})
			close(begun)
		}
		code, stdout, stderr := clitest.Interrupt(t, stdin, begun, strings.Fields(line)...)
		if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, clitest.ErrInterrupt.Error()) {
			t.Errorf("%s: exit code %d, %s%s", line, code, stdout, stderr)
		}
	}
	if _, err := tr.Get(t.Context(), "/a"); err == nil {
		t.Error("an entry was made")
	}
	if found, err := c.Get(t.Context(), s.ID()); err != nil || found.Certificate != nil {
		t.Errorf("the session has ended: %+v, %v", found, err)
	}
	l.End(0)
}
