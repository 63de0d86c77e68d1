package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/test/bubble"
)

// stalled is a writer that takes nothing until it is released.
type stalled struct {
	released chan struct{}
	took     bytes.Buffer
}

func (s *stalled) Write(b []byte) (int, error) {
	<-s.released
	return s.took.Write(b)
}

// Remarks for a writer that takes nothing hold nobody up, are written once it takes something, and are no more than
// there is room for. What is dropped is said.
func TestRemarksHoldNobodyUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &stalled{released: make(chan struct{})}
		r := &remarks{to: w}
		r.add("first\n")
		synctest.Wait() // the writer has the first
		for i := range remarksWaiting + 3 {
			r.add(fmt.Sprintf("%d\n", i))
		}
		began := time.Now()
		if r.wait(); time.Since(began) != lastWords {
			t.Errorf("waited %v for a writer that takes nothing, want %v", time.Since(began), lastWords)
		}
		close(w.released)
		began = time.Now()
		if r.wait(); time.Since(began) != 0 {
			t.Errorf("waited %v for a writer that takes everything", time.Since(began))
		}
		lines := strings.Split(strings.TrimSuffix(w.took.String(), "\n"), "\n")
		if len(lines) != remarksWaiting+2 || lines[0] != "first" || lines[1] != "0" ||
			!strings.Contains(lines[len(lines)-1], " 3 remarks were dropped") {
			t.Errorf("got %q, want the first, %d and that 3 were dropped", lines, remarksWaiting)
		}
		w.took.Reset()
		r.add("last\n")
		if r.wait(); w.took.String() != "last\n" {
			t.Errorf("got %q, want another remark alone", w.took.String())
		}
	})
}

// fullPipe returns the end for writing of a pipe that takes no byte more, and the end for reading.
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

// A program whose lock is lost is told and killed, its lock is given up, and the command ends, although nobody reads
// the standard error.
func TestFullStandardErrorSavesNoProgram(t *testing.T) {
	startTree(t)
	for _, tt := range []struct {
		onLost, script string
		hears          []string
		code           int
	}{
		{"term", "trap 'echo ended; exit 0' TERM; echo runs; read line", []string{"ended"}, exitFailed},
		{"kill", "echo runs; exec cat", nil, 128 + int(syscall.SIGKILL)},
	} {
		full, _ := fullPipe(t)
		l := startWith(t, func(cmd *exec.Cmd) { cmd.Stderr = full }, "lock", tt.script, "--on-lost", tt.onLost)
		l.hears("runs")
		succeed(t, "lock", "break", "job", "--yes")
		for _, line := range tt.hears {
			l.hears(line)
		}
		l.ended(tt.code)
		startLocking(t, "exit 0", "--wait", "0").ends(0)
	}
}
