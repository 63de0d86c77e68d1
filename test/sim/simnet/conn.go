package simnet

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const (
	// window is the number of bytes in flight or unread at which a writer waits.
	window = 256 << 10
	// stuckWindow is the window of a reader that is stuck.
	stuckWindow = 512
)

// pipe is one direction of a connection. Its fields after link are guarded by the network's mu.
type pipe struct {
	net  *Network
	link link
	// port is the port that the connection was made to.
	port     string
	segments []segment
	size     int
	// gone is set when the reading end was closed. Later writes are lost.
	gone bool
	// broken is set by a reset, for both ends.
	broken error
	wake   chan struct{}
	// awaited reports that a caller waits for wake.
	awaited bool
	// thin is the thinness of the link when the connection was made. carried is when a thin link has carried everything
	// that was sent. full reports that the buffer was full, and that less than a third of it has become free since.
	thin    thinness
	carried time.Time
	full    bool
}

// segment is the bytes of one write. end, when set, is the result of every read after it.
type segment struct {
	bytes []byte
	at    time.Time
	end   error
}

// newPipe is called with mu held.
func newPipe(n *Network, l link, port string) *pipe {
	return &pipe{net: n, link: l, port: port, thin: n.thin[l], wake: make(chan struct{})}
}

// announce wakes the pipe's reader and writer. The caller holds mu.
func (p *pipe) announce() {
	if !p.awaited {
		return
	}
	p.awaited = false
	close(p.wake)
	p.wake = make(chan struct{})
}

// wait returns a channel that is closed when there is news. The caller holds mu.
func (p *pipe) wait() <-chan struct{} {
	p.awaited = true
	return p.wake
}

// send appends a segment. It arrives after the link's latency, and after earlier segments. The caller holds mu.
func (p *pipe) send(s segment) {
	s.at = p.carry(len(s.bytes)).Add(p.net.takes(p.link))
	if last := len(p.segments) - 1; last >= 0 && p.segments[last].at.After(s.at) {
		s.at = p.segments[last].at
	}
	p.segments = append(p.segments, s)
	p.size += len(s.bytes)
	p.net.hold(p.link, p.port)
	p.announce()
}

// carry returns when the link has carried the given number of further bytes. Connections with data on a thin link share
// it evenly. The caller holds mu.
func (p *pipe) carry(size int) time.Time {
	now := time.Now()
	if p.thin.bits == 0 {
		return now
	}
	sharing := 1
	for c := range p.net.conns {
		if other := c.out; other != p && other.link == p.link && other.carried.After(now) {
			sharing++
		}
	}
	if p.carried.Before(now) {
		p.carried = now
	}
	p.carried = p.carried.Add(time.Duration(int64(size) * 8 * int64(sharing) * int64(time.Second) / int64(p.thin.bits)))
	return p.carried
}

// lose drops all bytes in flight, and ends the pipe for both ends. The caller holds mu.
func (p *pipe) lose(why error) {
	p.segments, p.size, p.broken = nil, 0, why
	p.announce()
}

// space returns how many bytes may be written now. The caller holds mu.
func (p *pipe) space() int {
	if p.net.stuck[p.link.to] > 0 {
		return stuckWindow - p.size
	}
	if p.thin.bits == 0 {
		return window - p.size
	}
	if p.full = p.size >= p.thin.buffer || p.full && p.size > p.thin.buffer*2/3; p.full {
		return 0
	}
	// Ten milliseconds' worth at a time, so that bytes arrive one after the other.
	return min(p.thin.buffer-p.size, max(packet, p.thin.bits/8/100))
}

// take reads arrived bytes into b. It returns n bytes, or an error, or how long until something may arrive; 0 if that
// is unknown. The caller holds mu.
func (p *pipe) take(b []byte) (n int, wait time.Duration, err error) {
	if p.broken != nil {
		return 0, 0, p.broken
	}
	if len(p.segments) == 0 || p.net.blocked(p.link) || p.net.choked[p.port] > 0 || p.net.stuck[p.link.to] > 0 {
		return 0, 0, nil
	}
	s := &p.segments[0]
	if wait = time.Until(s.at); wait > 0 {
		return 0, wait, nil
	}
	if s.end != nil {
		return 0, 0, s.end
	}
	n = copy(b, s.bytes)
	if s.bytes = s.bytes[n:]; len(s.bytes) == 0 {
		p.segments[0] = segment{}
		p.segments = p.segments[1:]
	}
	p.size -= n
	p.announce()
	return n, 0, nil
}

// conn is one end of a connection. Its fields after peer are guarded by the network's mu.
type conn struct {
	host          *Host
	in, out       *pipe
	local, remote Addr
	peer          *conn

	closed         bool
	readBy, sendBy time.Time
}

func newConn(h *Host, in, out *pipe, local, remote Addr) *conn {
	return &conn{host: h, in: in, out: out, local: local, remote: remote}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	for {
		n, wake, wait, err := c.tryRead(b)
		if n > 0 || err != nil {
			return n, err
		}
		pause(wake, wait)
	}
}

// tryRead returns bytes or an error, or a channel to wait for and the longest wait; 0 for no bound.
func (c *conn) tryRead(b []byte) (n int, wake <-chan struct{}, wait time.Duration, err error) {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if err = c.usable("read", c.readBy); err != nil {
		return 0, nil, 0, err
	}
	n, wait, err = c.in.take(b)
	switch {
	case err == io.EOF: //nolint:errorlint // io.Reader's contract is the bare io.EOF
		return 0, nil, 0, io.EOF
	case err != nil:
		return 0, nil, 0, c.failed("read", err)
	case n > 0 || len(b) == 0:
		return n, nil, 0, nil
	}
	return 0, c.in.wait(), sooner(wait, c.readBy), nil
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	for sent := 0; ; {
		n, wake, err := c.tryWrite(b[sent:])
		if sent += n; err != nil || sent == len(b) {
			return sent, err
		}
		if n > 0 {
			continue
		}
		pause(wake, sooner(0, c.deadline(&c.sendBy)))
	}
}

func (c *conn) tryWrite(b []byte) (int, <-chan struct{}, error) {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if err := c.usable("write", c.sendBy); err != nil {
		return 0, nil, err
	}
	if c.out.broken != nil {
		return 0, nil, c.failed("write", c.out.broken)
	}
	if c.out.gone {
		return len(b), nil, nil // TCP accepts the bytes before it learns of the reset
	}
	n := min(len(b), c.out.space())
	if n <= 0 {
		c.host.net.hold(c.out.link, c.out.port)
		return 0, c.out.wait(), nil
	}
	c.out.send(segment{bytes: append([]byte(nil), b[:n]...)})
	return n, nil, nil
}

// usable reports why no more can be done on c. The caller holds mu.
func (c *conn) usable(doing string, by time.Time) error {
	switch {
	case c.closed:
		return c.failed(doing, net.ErrClosed)
	case !by.IsZero() && !time.Now().Before(by):
		return c.failed(doing, os.ErrDeadlineExceeded)
	}
	return nil
}

func (c *conn) failed(doing string, err error) error {
	return &net.OpError{Op: doing, Net: "sim", Source: c.local, Addr: c.remote, Err: err}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.closed {
		return c.failed("close", net.ErrClosed)
	}
	c.host.net.closeConn(c, io.EOF)
	return nil
}

// closeConn closes one end. The other end notices as soon as its link allows. The caller holds mu.
func (n *Network) closeConn(c *conn, why error) {
	if c.closed {
		return
	}
	c.closed = true
	delete(n.conns, c)
	c.in.gone = true
	c.out.send(segment{end: why})
	c.in.announce()
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBy, &c.sendBy) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBy) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.sendBy) }

func (c *conn) setDeadlines(t time.Time, deadlines ...*time.Time) error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.closed {
		return c.failed("set deadline", fmt.Errorf("%w", net.ErrClosed))
	}
	for _, d := range deadlines {
		*d = t
	}
	c.in.announce()
	c.out.announce()
	return nil
}

func (c *conn) deadline(d *time.Time) time.Time {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	return *d
}

// sooner returns the shorter of wait and the time until by, at least a nanosecond. Zero means no bound, for both.
func sooner(wait time.Duration, by time.Time) time.Duration {
	if by.IsZero() {
		return wait
	}
	left := max(time.Until(by), 1)
	if wait == 0 {
		return left
	}
	return min(wait, left)
}

// pause waits for wake, for at most wait; 0 for no bound.
func pause(wake <-chan struct{}, wait time.Duration) {
	if wait == 0 {
		<-wake
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	}
}
