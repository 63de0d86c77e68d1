package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/skip"
)

// TestSlacken: a child process of this test starts with a slack, calls slacken, and prints its state before and after.
func TestSlacken(t *testing.T) {
	const inside = "HOLDFAST_TEST_SLACK"
	if os.Getenv(inside) != "" {
		fmt.Println("begun", os.Getpid())
		slacken()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		fmt.Println("slack", timerSlack())
		return
	}
	for _, c := range []struct {
		name        string
		cpus        string
		given, want time.Duration
		starts      int
	}{
		{"usual", "2", usualSlack, slack, 2},
		{"chosen", "2", 3 * usualSlack, 3 * usualSlack, 1},
		{"one CPU", "1", usualSlack, usualSlack, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSlacken$")
			child.Env = append(os.Environ(), inside+"=1", "GOMAXPROCS="+c.cpus)
			runtime.LockOSThread() // a child gets the slack of the thread that starts it
			defer runtime.UnlockOSThread()
			if _, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, uintptr(c.given), 0); failed != 0 {
				skip.Test(t, "setting a timer slack: ", failed)
			}
			out, err := child.CombinedOutput()
			syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, uintptr(usualSlack), 0)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			begun := fmt.Sprintf("begun %d\n", child.Process.Pid)
			if got := strings.Count(string(out), begun); got != c.starts {
				t.Errorf("the process began %d times, want %d: %s", got, c.starts, out)
			}
			if want := fmt.Sprintf("slack %v\n", c.want); !strings.Contains(string(out), want) {
				t.Errorf("got %s, want %s", out, want)
			}
		})
	}
}
