package lock

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
)

// fullPipe returns the write end of a full pipe, and its read end.
func fullPipe(t *testing.T) (full, reader *os.File) {
	t.Helper()
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	for part := make([]byte, 4096); ; {
		if _, err := syscall.Write(ends[1], part); err == syscall.EAGAIN {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range ends {
		if err := syscall.SetNonblock(end, false); err != nil {
			t.Fatal(err)
		}
	}
	reader, full = os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "full")
	t.Cleanup(func() { reader.Close(); full.Close() })
	return full, reader
}

// A program whose lock is lost is killed, its lock is given up, and the command ends, although the standard error has
// no reader.
func TestFullStandardErrorSavesNoProgram(t *testing.T) {
	clitest.StartTree(t)
	for _, tt := range []struct {
		onLost, script string
		hears          []string
		code           int
	}{
		{"term", "trap 'echo ended; exit 0' TERM; echo runs; read line", []string{"ended"}, cli.ExitFailed},
		{"kill", "echo runs; exec cat", nil, 128 + int(syscall.SIGKILL)},
	} {
		full, _ := fullPipe(t)
		l := clitest.StartProgramWith(t, func(cmd *exec.Cmd) { cmd.Stderr = full }, "lock", tt.script, "--on-lost", tt.onLost)
		l.Expect("runs")
		clitest.Succeed(t, "lock", "break", "job", "--yes")
		for _, line := range tt.hears {
			l.Expect(line)
		}
		l.Wait(tt.code)
		clitest.StartProgram(t, "lock", "exit 0", "--wait", "0").End(0)
	}
}
