//go:build linux

package idle

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// pollEvents is how many connections a poller handles at once.
const pollEvents = 256

// poller reports readable sockets, once for each wait. It uses the kernel's epoll.
type poller struct {
	// file is the epoll instance. Go's own poller waits for it, so the wait needs no thread.
	file *os.File
	raw  syscall.RawConn
	done chan struct{}
}

// newPoller starts a poller. One goroutine calls readable with the keys of finished waits, and fail
// when the poller cannot continue.
func newPoller(readable func(keys []uint64), fail func()) (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err = syscall.SetNonblock(fd, true); err != nil { // os.NewFile checks this flag
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
		if err := p.run(readable); !errors.Is(err, os.ErrClosed) {
			fail()
		}
	}()
	return p, nil
}

// run waits for sockets until an error, which it returns.
func (p *poller) run(readable func(keys []uint64)) error {
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
		readable(keys)
	}
}

// socket is a connection that the kernel can watch.
type socket struct {
	raw syscall.RawConn
	// known reports whether the poller has added the socket.
	known bool
}

// socketOf returns the socket of a connection, nil if there is none.
func socketOf(conn net.Conn) *socket {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return &socket{raw: raw}
}

// wait makes the poller report key once, when w can be read or the other end has closed the connection.
func (p *poller) wait(w *socket, key uint64) error {
	event := syscall.EpollEvent{
		Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT,
		Fd:     int32(uint32(key)), Pad: int32(uint32(key >> 32)), //nolint:gosec // the halves of the key
	}
	op := syscall.EPOLL_CTL_ADD
	if w.known {
		op = syscall.EPOLL_CTL_MOD
	}
	w.known = true // before the call: once the poller reports the key, w has another owner
	var gone, failed error
	closed := p.raw.Control(func(poll uintptr) {
		gone = w.raw.Control(func(fd uintptr) {
			failed = os.NewSyscallError("epoll_ctl", syscall.EpollCtl(int(poll), op, int(fd), &event))
		})
	})
	return errors.Join(closed, gone, failed)
}

// close ends the poller and waits for its goroutine.
func (p *poller) close() {
	_ = p.file.Close() // an epoll instance has nothing to flush
	<-p.done
}
