package simnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Errors as from a kernel.
var (
	errRefused = fmt.Errorf("host: %w", syscall.ECONNREFUSED)
	errReset   = fmt.Errorf("host: %w", syscall.ECONNRESET)
	errInUse   = errors.New("address already in use")
	errDead    = errors.New("host is dead")
)

const firstEphemeralPort = 40_000

// Host is one life of a host. A process listens and dials from it. Safe for concurrent use.
type Host struct {
	net  *Network
	name string
	dead chan struct{}
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// Listen listens on a port of the host. The host part of address is ignored.
func (h *Host) Listen(address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", address, err)
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.net.lives[h.name] != h {
		return nil, fmt.Errorf("listen %s: %w", address, errDead)
	}
	at := net.JoinHostPort(h.name, port)
	if h.net.ports[at] != nil {
		return nil, fmt.Errorf("listen %s: %w", at, errInUse)
	}
	l := &listener{host: h, addr: Addr(at), wake: make(chan struct{})}
	h.net.ports[at] = l
	return l, nil
}

// trip is the time to make a connection.
func (h *Host) trip(to string) time.Duration {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.net.takes(link{h.name, to}) + h.net.takes(link{to, h.name})
}

// Dial connects to host:port, after a round trip. While a cut or a pause blocks either direction the dial hangs until
// ctx ends. It is refused when nothing listens there, for example on a killed host.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	timer := time.NewTimer(h.trip(to))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("dial %s: %w", address, ctx.Err())
	}
	for counted := false; ; counted = true {
		c, wait, err := h.tryDial(address, to, !counted)
		if c != nil {
			return c, nil
		}
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		select {
		case <-wait:
		case <-h.dead:
			return nil, fmt.Errorf("dial %s: %w", address, errDead)
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", address, ctx.Err())
		}
	}
}

// tryDial returns a connection, an error, or a channel to wait for. first makes it count a held dial once.
//
//nolint:revive // flag-parameter: the loop above is its only caller
func (h *Host) tryDial(address, to string, first bool) (net.Conn, <-chan struct{}, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lives[h.name] != h {
		return nil, nil, errDead
	}
	there, back := link{h.name, to}, link{to, h.name}
	if n.blocked(there) || n.blocked(back) || n.choked[address] > 0 {
		if first && !n.hold(there, address) {
			n.hold(back, address)
		}
		return nil, n.changed, nil
	}
	l := n.ports[address]
	if n.refused[there] > 0 {
		n.held[there]++
		return nil, nil, errRefused
	}
	if l == nil {
		return nil, nil, errRefused
	}
	n.ephemeral++
	from := ephemeral(h.name, firstEphemeralPort+n.ephemeral)
	out, in := newPipe(n, there, address), newPipe(n, back, address)
	near := newConn(h, in, out, from, l.addr)
	far := newConn(l.host, out, in, l.addr, from)
	near.peer, far.peer = far, near
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	l.backlog = append(l.backlog, far)
	l.announce()
	return near, nil, nil
}

// listener is a port of a host. Its fields after addr are guarded by the network's mu.
type listener struct {
	host    *Host
	addr    Addr
	backlog []*conn
	closed  bool
	wake    chan struct{}
}

func (l *listener) announce() {
	close(l.wake)
	l.wake = make(chan struct{})
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.host.net.mu.Lock()
		closed, wake := l.closed, l.wake
		var c *conn
		if len(l.backlog) > 0 {
			c, l.backlog = l.backlog[0], l.backlog[1:]
		}
		l.host.net.mu.Unlock()
		switch {
		case closed:
			return nil, fmt.Errorf("accept on %s: %w", l.addr, net.ErrClosed)
		case c != nil:
			return c, nil
		}
		<-wake
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	if l.closed {
		return fmt.Errorf("close listener on %s: %w", l.addr, net.ErrClosed)
	}
	l.host.net.closeListener(l)
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// closeListener closes l, and the connections that it has not handed out. The caller holds mu.
func (n *Network) closeListener(l *listener) {
	delete(n.ports, string(l.addr))
	l.closed = true
	for _, c := range l.backlog {
		n.closeConn(c, errReset)
	}
	l.backlog = nil
	l.announce()
}
