package child

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// Constants of Linux that package syscall lacks.
const (
	pAll, pPID                     = 0, 1
	setChildSubreaper, getReaper   = 36, 37
	noProcess, codeOfSignal        = 0, 128
	sizeOfInfo, fieldsBeforeParent = 128, 2
)

// info is the siginfo_t of a child. The union behind the first three numbers is aligned as a pointer is.
type info struct {
	_, _, _ int32
	_       [0]uintptr
	pid     int32
	_       uint32
	status  int32
	_       [sizeOfInfo - 24]byte
}

// waitFor is waitid(2). It returns the zero info when no child is in the state that flags ask for.
func waitFor(kind, pid int, flags uintptr) (info, error) {
	for {
		var i info
		_, _, failed := syscall.Syscall6(syscall.SYS_WAITID, uintptr(kind), uintptr(pid), uintptr(unsafe.Pointer(&i)),
			flags, 0, 0)
		if failed == 0 {
			return i, nil
		}
		if failed != syscall.EINTR {
			return info{}, failed
		}
	}
}

// awaitEnd returns when a child has ended, and leaves it unreaped.
func awaitEnd(pid int) { _, _ = waitFor(pPID, pid, syscall.WEXITED|syscall.WNOWAIT) }

// stopSignal returns the signal that has stopped a child since the last call, 0 for none.
func stopSignal(pid int) syscall.Signal {
	i, err := waitFor(pPID, pid, syscall.WSTOPPED|syscall.WNOHANG)
	if err != nil || i.pid == noProcess {
		return 0
	}
	return syscall.Signal(i.status)
}

// ended returns a child that has ended and was not waited for, 0 for none.
func ended() int {
	i, err := waitFor(pAll, 0, syscall.WEXITED|syscall.WNOHANG|syscall.WNOWAIT)
	if err != nil {
		return noProcess
	}
	return int(i.pid)
}

// adopting reports whether this process gets the orphans among its descendants.
func adopting() bool {
	var is int32
	_, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, getReaper, uintptr(unsafe.Pointer(&is)), 0)
	return failed == 0 && is != 0
}

// adopt makes this process get the orphans among its descendants: 1 for yes, 0 for no.
func adopt(yes uintptr) error {
	if _, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, yes, 0); failed != 0 {
		return fmt.Errorf("adopt orphans: %w", failed)
	}
	return nil
}

// continuable reports whether another process can be expected to continue this process after a stop: the terminal's
// shell, which is a parent of this process's group from outside the group. The kernel does not let a terminal stop a
// group without such a parent.
func continuable() bool {
	group, session := syscall.Getpgrp(), sessionOf(0)
	for pid := os.Getppid(); pid > 0; pid = parentOf(pid) {
		its, err := syscall.Getpgid(pid)
		switch {
		case err != nil || sessionOf(pid) != session:
			return false
		case its != group:
			return true
		}
	}
	return false
}

// sessionOf returns the session of a process, 0 for this process; -1 if there is no such process.
func sessionOf(pid int) int {
	id, _, failed := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if failed != 0 {
		return -1
	}
	return int(id)
}

// parentOf returns the parent of a process, 0 if unknown.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return noProcess
	}
	_, behind, _ := bytes.Cut(stat, []byte(") ")) // a name may have spaces; a name with ") " only makes the answer 0
	fields := bytes.Fields(behind)
	if len(fields) < fieldsBeforeParent {
		return noProcess
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return noProcess
	}
	return parent
}
