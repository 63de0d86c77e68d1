package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// usualSlack is the timer slack of a Linux process that nobody has given another one.
	usualSlack = 50 * time.Microsecond
	// slack is how late the kernel may wake a thread of the node that sleeps for a time.
	slack = time.Millisecond

	// These are Linux's PR_SET_TIMERSLACK and PR_GET_TIMERSLACK.
	setTimerSlack, getTimerSlack = 29, 30
)

// slacken starts this program anew, in the same process, so that the kernel may wake its threads a millisecond late.
// After each system call Go's runtime looks every 20 microseconds whether a thread hangs in one, until the process has
// nothing to do. That was a third of the CPU of an idle node, and a fifth under load. A thread has the slack of the one
// that started it, and the looking thread runs before main does: only a new start gives it a slack.
//
// A slack that somebody has chosen, as with systemd's TimerSlackNSec, stays. With one CPU it stays as well: everything
// would wait there for a look while a thread writes to the disk. If anything fails, the program goes on as it is.
func slacken() {
	runtime.LockOSThread() // the slack of this thread becomes that of the process
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
