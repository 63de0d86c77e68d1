package child

import (
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/term"
)

// terminal is the controlling terminal of this process. A nil terminal is none.
type terminal struct {
	fd int
	// mine is the process group of this process.
	mine int
	// lent: lend gave the foreground to another group.
	lent bool
	// before are the settings of the terminal as of the first lend; nil before that.
	before *term.State
}

// openTerminal returns the controlling terminal, nil if there is none. From then on this process is not stopped for
// writing to the terminal from the background: a stopped process keeps nothing alive.
func openTerminal() *terminal {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	signal.Ignore(syscall.SIGTTOU)
	return &terminal{fd: fd, mine: syscall.Getpgrp()}
}

// close returns the foreground to this process, and restores the settings if the program was killed and could not.
func (t *terminal) close(killed bool) { //nolint:revive // a fact rather than a choice of the caller
	if t == nil {
		return
	}
	t.takeBack()
	if killed && t.before != nil {
		_ = term.Restore(t.fd, t.before) // the terminal may be gone
	}
	signal.Reset(syscall.SIGTTOU)
	_ = syscall.Close(t.fd)
}

// isMine reports whether this process is in the foreground.
func (t *terminal) isMine() bool {
	var group int32
	return t != nil && t.control(syscall.TIOCGPGRP, &group) && int(group) == t.mine
}

// lend gives the foreground to a process group.
func (t *terminal) lend(group int) {
	if t.before == nil {
		t.before, _ = term.GetState(t.fd)
	}
	t.lent = t.control(syscall.TIOCSPGRP, new(int32(group))) //nolint:gosec // a process group is small
}

// takeBack returns the foreground to this process from the group that borrowed it.
func (t *terminal) takeBack() {
	if t.lent {
		t.control(syscall.TIOCSPGRP, new(int32(t.mine))) //nolint:gosec // a process group is small
		t.lent = false
	}
}

// control performs an operation on the terminal, and reports whether it succeeded.
func (t *terminal) control(operation uintptr, group *int32) bool {
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, uintptr(t.fd), operation, uintptr(unsafe.Pointer(group)))
	return failed == 0
}
