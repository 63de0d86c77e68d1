//go:build linux

package zk

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// pollEvents is how many connections a poller hears of at a time.
const pollEvents = 256

// poller says which sockets can be read, one time for each wait, with the kernel's epoll.
type poller struct {
	// file is the epoll instance. It is in Go's own poller, so that a goroutine can wait for it and no thread does.
	file *os.File
	raw  syscall.RawConn
	done chan struct{}
}

// newPoller starts a poller. It calls come with the keys of waits that are over, always from the same goroutine, and
// fail if there can be no more.
func newPoller(come func(keys []uint64), fail func()) (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err = syscall.SetNonblock(fd, true); err != nil { // os.NewFile looks for it
		return nil, errors.Join(os.NewSyscallError("fcntl", err), syscall.Close(fd))
	}
	p := &poller{file: os.NewFile(uintptr(fd), "epoll"), done: make(chan struct{})}
	err = p.file.SetReadDeadline(time.Time{}) // has an error unless Go's poller has the file
	if err == nil {
		p.raw, err = p.file.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	go func() {
		defer close(p.done)
		if err := p.run(come); !errors.Is(err, os.ErrClosed) {
			fail()
		}
	}()
	return p, nil
}

// run returns why the poller waits no more.
func (p *poller) run(come func(keys []uint64)) error {
	events, keys := make([]syscall.EpollEvent, pollEvents), make([]uint64, 0, pollEvents)
	for {
		n := 0
		var failed error
		ended := p.raw.Read(func(fd uintptr) bool {
			if n, failed = syscall.EpollWait(int(fd), events, 0); errors.Is(failed, syscall.EINTR) {
				failed = nil
			}
			return n > 0 || failed != nil
		})
		if err := errors.Join(ended, os.NewSyscallError("epoll_wait", failed)); err != nil {
			return err
		}
		keys = keys[:0]
		for _, e := range events[:n] {
			keys = append(keys, uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32) //nolint:gosec // the halves of a key
		}
		come(keys)
	}
}

// watched is a socket for a poller.
type watched struct {
	raw syscall.RawConn
	// known says that the poller has it.
	known bool
}

// watchedOf returns a connection for a poller, nil if it is no socket.
func watchedOf(conn net.Conn) *watched {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return &watched{raw: raw}
}

// wait has the poller tell key when w can be read, or its other end has closed. That ends the wait.
func (p *poller) wait(w *watched, key uint64) error {
	event := syscall.EpollEvent{
		Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT,
		Fd:     int32(uint32(key)), Pad: int32(uint32(key >> 32)), //nolint:gosec // the halves of the key
	}
	op := syscall.EPOLL_CTL_ADD
	if w.known {
		op = syscall.EPOLL_CTL_MOD
	}
	w.known = true // now: once the poller tells the key, w has another owner
	var gone, failed error
	closed := p.raw.Control(func(poll uintptr) {
		gone = w.raw.Control(func(fd uintptr) {
			failed = os.NewSyscallError("epoll_ctl", syscall.EpollCtl(int(poll), op, int(fd), &event))
		})
	})
	return errors.Join(closed, gone, failed)
}

// close ends the poller, and returns when it is no longer busy.
func (p *poller) close() {
	_ = p.file.Close() // nothing of it is left to write
	<-p.done
}
