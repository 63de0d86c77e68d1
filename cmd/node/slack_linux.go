package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// usualSlack is the default timer slack of a Linux process.
	usualSlack = 50 * time.Microsecond
	// slack is how late the kernel may wake a thread of the node that sleeps for a time.
	slack = time.Millisecond

	// These are Linux's PR_SET_TIMERSLACK and PR_GET_TIMERSLACK.
	setTimerSlack, getTimerSlack = 29, 30
)

// slacken starts this program again, in the same process, so that the kernel may wake its threads a millisecond late.
// After each system call Go's runtime checks every 20 microseconds whether a thread hangs in one, until the process is
// idle. These checks were a third of the CPU of an idle node, and a fifth under load. A thread inherits the slack of
// the thread that started it, and the checking thread runs before main does: only a new start can set its slack.
//
// A slack that was chosen on purpose, as with systemd's TimerSlackNSec, stays. With one CPU the slack stays as well:
// all threads would wait for a check while a thread writes to the disk. If anything fails, the program continues
// unchanged.
func slacken() {
	runtime.LockOSThread() // the process inherits the slack of this thread
	defer runtime.UnlockOSThread()
	if runtime.GOMAXPROCS(0) == 1 || timerSlack() != usualSlack {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	if _, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, uintptr(slack), 0); failed != 0 {
		return
	}
	_ = syscall.Exec(self, os.Args, os.Environ()) // returns only when it fails
}

// timerSlack returns the timer slack of this thread.
func timerSlack() time.Duration {
	now, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, getTimerSlack, 0, 0)
	if failed != 0 {
		return 0
	}
	return time.Duration(now)
}
