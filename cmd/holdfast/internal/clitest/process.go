package clitest

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Process is a process that runs "holdfast lock", or another command with a program. Signals, orphans and the terminal
// belong to a process, so each program needs its own.
type Process struct {
	t *testing.T
	// Cmd is the process, In its standard input, and Out and Stderr its outputs.
	Cmd    *exec.Cmd
	In     io.WriteCloser
	Out    *bufio.Reader
	Stderr Buffer
}

// StartProgram runs a shell script with a command that runs programs, such as "lock".
func StartProgram(t *testing.T, command, script string, flags ...string) *Process {
	t.Helper()
	return StartProgramWith(t, func(*exec.Cmd) {}, command, script, flags...)
}

// StartProgramWith is [StartProgram] with a change of the process before it starts.
func StartProgramWith(t *testing.T, change func(*exec.Cmd), command, script string, flags ...string) *Process {
	t.Helper()
	l := &Process{t: t}
	args := append([]string{command, "--timeout", "1m", "--call-timeout", "1m"}, flags...) // for a busy machine
	args = append(args, "job", "--", "sh", "-c", script)
	l.Cmd = Command(args...)
	l.Cmd.Stderr = &l.Stderr
	var err error
	if l.In, err = l.Cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := l.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.Out = bufio.NewReader(out)
	change(l.Cmd)
	if err := l.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.In.Close(); l.Cmd.Process.Kill(); l.Cmd.Wait() })
	return l
}

// Expect reads a line of the program.
func (l *Process) Expect(want string) {
	l.t.Helper()
	if got, err := l.Out.ReadString('\n'); err != nil || strings.TrimSpace(got) != want {
		l.Cmd.Wait() // after the end of its output
		l.t.Fatalf("got %q, %v, want %q; %s", got, err, want, l.Stderr.String())
	}
}

// End closes the input, and waits for the end.
func (l *Process) End(code int) string {
	l.t.Helper()
	l.In.Close()
	return l.Wait(code)
}

// Wait waits for the end, checks the exit code, and returns the standard error.
func (l *Process) Wait(code int) string {
	l.t.Helper()
	if _, err := io.ReadAll(l.Out); err != nil { // its program and all its children have ended
		l.t.Fatal(err)
	}
	l.Cmd.Wait()
	if got := l.Cmd.ProcessState.ExitCode(); got != code {
		l.t.Fatalf("exit code %d, want %d; %s", got, code, l.Stderr.String())
	}
	return l.Stderr.String()
}

// ExpectMessage waits for a message on the process's standard error.
func (l *Process) ExpectMessage(want string) {
	l.t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(l.Stderr.String(), want); {
		if time.Now().After(end) {
			l.t.Fatalf("waiting for %q; got %s", want, l.Stderr.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}
