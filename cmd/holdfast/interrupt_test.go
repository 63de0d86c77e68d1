package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// silence is a standard input at which nobody types anything.
type silence struct {
	// asked is closed when the command reads, and ended ends the Read after the test.
	asked, ended chan struct{}
	once         sync.Once
}

func newSilence(t *testing.T) *silence {
	t.Helper()
	s := &silence{asked: make(chan struct{}), ended: make(chan struct{})}
	t.Cleanup(func() { close(s.ended) })
	return s
}

func (s *silence) Read([]byte) (int, error) {
	s.once.Do(func() { close(s.asked) })
	<-s.ended
	return 0, io.EOF
}

// errInterrupted is the end of a command's context, as a signal has it.
var errInterrupted = errors.New("interrupt signal received")

// interrupted runs a command line, interrupts it once begun is closed, and returns how it ended.
func interrupted(t *testing.T, stdin io.Reader, begun <-chan struct{}, args ...string,
) (code int, stdout, stderr string) {
	t.Helper()
	ctx, interrupt := context.WithCancelCause(t.Context())
	var out, errs complaints
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, args, stdin, &out, &errs) }()
	const patience = time.Minute
	late := time.After(patience)
	select {
	case <-begun:
	case code = <-ended:
		t.Fatalf("%v: ended before it was interrupted: exit code %d, %s", args, code, errs.String())
	case <-late:
		t.Fatalf("%v: has not read its input", args)
	}
	interrupt(errInterrupted)
	select {
	case code = <-ended:
	case <-late:
		t.Fatalf("%v: runs on though it was interrupted", args)
	}
	return code, out.String(), errs.String()
}

// The first signal ends every command that waits for its standard input, and nothing was done then.
func TestAnInterruptEndsTheWaitForInput(t *testing.T) {
	c := startTree(t)
	s, tr := heldTree(t, c)
	l := startLocking(t, "echo runs; exec cat")
	l.hears("runs")
	for _, line := range []string{
		"set /a -", "create /a -", "txn -", "session touch --token-file -", "session upgrade --token-file -",
		"session close --token-file -", "session hold --token-file -", "create /a -e --token-file -", "lock break job",
		"session kill " + s.ID().String(), "set /a @/dev/stdin", "txn /dev/stdin",
	} {
		stdin := newSilence(t)
		begun := stdin.asked
		if strings.Contains(line, "/dev/stdin") {
			line = strings.ReplaceAll(line, "/dev/stdin", silentPipe(t))
			begun = make(chan struct{})
			close(begun)
		}
		code, stdout, stderr := interrupted(t, stdin, begun, strings.Fields(line)...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, errInterrupted.Error()) {
			t.Errorf("%s: exit code %d, %s%s", line, code, stdout, stderr)
		}
	}
	if _, err := tr.Get(t.Context(), "/a"); err == nil {
		t.Error("an entry was made")
	}
	if found, err := c.Get(t.Context(), s.ID()); err != nil || found.Certificate != nil {
		t.Errorf("the session has ended: %+v, %v", found, err)
	}
	l.ends(0)
}

// silentPipe returns the path of a pipe that a process has open and writes nothing to.
func silentPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path
}

// A signal ends the verification of a backup, and nobody is told that the backup is damaged.
func TestAnInterruptEndsAVerification(t *testing.T) {
	path := silentPipe(t)
	begun := make(chan struct{})
	close(begun)
	code, stdout, stderr := interrupted(t, nil, begun, "snapshot", "verify", path)
	if want := "holdfast: " + path + ": " + errInterrupted.Error() + "\n"; code != exitFailed || stdout != "" ||
		stderr != want {
		t.Errorf("exit code %d, %s%s, want %s", code, stdout, stderr, want)
	}
}

// slowInput is a standard input that says nothing for a while.
type slowInput struct {
	silent time.Duration
	text   io.Reader
}

func (s *slowInput) Read(b []byte) (int, error) {
	<-time.After(s.silent)
	s.silent = 0
	return s.text.Read(b)
}

// The wait for a token is none for the cluster.
func TestHoldWaitsForItsToken(t *testing.T) {
	inTime(t, func(limit string) string {
		n := startNode(t)
		var errs bytes.Buffer
		stdin := &slowInput{beyond(t, limit), strings.NewReader(tokenText)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r, w := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, strings.Fields("session hold --keep --call-timeout "+limit+" --token-file -"), stdin, w, &errs)
			_ = w.Close()
		}()
		_, _ = r.Read(make([]byte, 1)) // it holds the session, or has ended
		stop()
		_, _ = io.Copy(io.Discard, r)
		if code := <-ended; code != exitDone {
			return fmt.Sprintf("exit code %d, %s", code, errs.String())
		}
		if got := n.callsOfSessions(); len(got) != 1 || got[0] != "resume" {
			return fmt.Sprintf("got %q", got)
		}
		return ""
	})
}
