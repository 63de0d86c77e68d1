package system

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Codes of ZooKeeper's protocol.
const (
	zooPing      = 11
	zooClose     = -11
	zooPingXid   = -2
	zooEventXid  = -1
	zooHeader    = 16 // bytes of an answer's header: xid, zxid, code
	zooPassword  = 16
	zooFrame     = 1 << 20
	zooConnected = 36 // bytes of an answer to a connect request up to the password's end
)

// zooConn is a client of one server. Each of its sessions is a connection of its own, as the protocol has it.
type zooConn struct {
	//nolint:containedctx // the connection's life
	ctx     context.Context
	cancel  context.CancelFunc
	address string
	running sync.WaitGroup

	mu sync.Mutex
	// all are the living sessions; guarded by mu.
	all map[*zooSession]struct{}
	// onExpired is called when the server ends a session's connection; guarded by mu.
	onExpired func(sessions int)
	// watcher is the session of this connection's watches; guarded by mu.
	watcher *zooSession
}

func newZooConn(ctx context.Context, address string) *zooConn {
	c := &zooConn{address: address, all: map[*zooSession]struct{}{}}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// zooSession is a session and its connection.
type zooSession struct {
	id       uint64
	password [zooPassword]byte
	timeout  time.Duration
	conn     net.Conn

	mu sync.Mutex
	// xid numbers requests; waiting are those that wait for their answers, in order, and pings those that are pings. All
	// guarded by mu.
	xid            int32
	waiting, pings []zooAnswer
	// ended says why nothing can be asked any more; guarded by mu.
	ended error
	// onEvent receives events; guarded by mu.
	onEvent func(error)
}

// zooAnswer processes the answer to a request: what follows its header, valid until it returns.
type zooAnswer func(body []byte, err error)

// Open opens a session.
func (c *zooConn) Open(timeout time.Duration, done func(Session, error)) {
	c.running.Go(func() {
		s, err := c.attach(&zooSession{timeout: timeout})
		if err != nil {
			done(nil, err)
			return
		}
		done(s, nil)
	})
}

// Reattach moves a session whose connection was lost here.
func (c *zooConn) Reattach(held Session, done func(error)) {
	was := held.(*zooSession) //nolint:errcheck // this system's own
	c.running.Go(func() {
		_, err := c.attach(&zooSession{id: was.id, password: was.password, timeout: was.timeout})
		done(err)
	})
}

// attach connects a session, a new one if its id is 0.
func (c *zooConn) attach(s *zooSession) (*zooSession, error) {
	d := net.Dialer{Timeout: requestWait}
	conn, err := d.DialContext(c.ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	if err := s.greet(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.mu.Lock()
	c.all[s] = struct{}{}
	c.mu.Unlock()
	c.running.Go(func() { c.read(s) })
	return s, nil
}

// greet sends the connect request and reads its answer. A session that has ended has the timeout 0 in it.
func (s *zooSession) greet() error {
	if err := s.conn.SetDeadline(time.Now().Add(requestWait)); err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint32(nil, 45) // the length of what follows
	b = binary.BigEndian.AppendUint32(b, 0)     // version
	b = binary.BigEndian.AppendUint64(b, 0)     // newest zxid seen
	b = binary.BigEndian.AppendUint32(b, uint32(s.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, s.id)
	b = binary.BigEndian.AppendUint32(b, zooPassword)
	b = append(append(b, s.password[:]...), 0) // not read-only
	if _, err := s.conn.Write(b); err != nil {
		return err
	}
	answer, err := frame(s.conn, nil)
	if err != nil {
		return err
	}
	if len(answer) < zooConnected {
		return fmt.Errorf("answer of %d bytes to a connect request", len(answer))
	}
	timeout := binary.BigEndian.Uint32(answer[4:])
	if timeout == 0 {
		return ErrExpired
	}
	s.id = binary.BigEndian.Uint64(answer[8:])
	copy(s.password[:], answer[20:])
	return s.conn.SetDeadline(time.Time{})
}

// frame reads one message.
func frame(from io.Reader, into []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > zooFrame {
		return nil, fmt.Errorf("message of %d bytes", n)
	}
	if cap(into) < int(n) {
		into = make([]byte, n)
	}
	_, err := io.ReadFull(from, into[:n])
	return into[:n], err
}

// read passes answers to the requests that wait for them. ZooKeeper answers in order.
func (c *zooConn) read(s *zooSession) {
	var b []byte
	var err error
	for {
		if b, err = frame(s.conn, b); err != nil {
			break
		}
		if err = s.received(b); err != nil {
			break
		}
	}
	c.mu.Lock()
	delete(c.all, s)
	onExpired := c.onExpired
	c.mu.Unlock()
	s.end(errors.Join(ErrEnded, err))
	if onExpired != nil && c.ctx.Err() == nil {
		onExpired(1)
	}
}

func (s *zooSession) end(why error) {
	s.mu.Lock()
	s.ended = why
	waiting, onEvent := slices.Concat(s.waiting, s.pings), s.onEvent
	s.waiting, s.pings = nil, nil
	s.mu.Unlock()
	for _, answered := range waiting {
		answered(nil, why)
	}
	if onEvent != nil {
		onEvent(why)
	}
	_ = s.conn.Close()
}

// received handles one message: an answer or an event.
func (s *zooSession) received(b []byte) error {
	if len(b) < zooHeader {
		return fmt.Errorf("message of %d bytes", len(b))
	}
	xid, code := int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[12:])) //nolint:gosec // its bits
	s.mu.Lock()
	onEvent := s.onEvent
	queue := &s.waiting
	if xid == zooPingXid {
		queue = &s.pings
	}
	var answered zooAnswer
	if xid != zooEventXid && len(*queue) > 0 {
		answered, *queue = (*queue)[0], (*queue)[1:]
	}
	s.mu.Unlock()
	switch {
	case answered != nil:
		answered(b[zooHeader:], zooError(code))
	case xid == zooEventXid && onEvent != nil:
		onEvent(nil)
	}
	return nil
}

// ask sends a request that is a header alone.
func (s *zooSession) ask(kind int32, done func(error)) {
	s.request(kind, nil, func(_ []byte, err error) { done(err) })
}

// request sends a request with a body.
func (s *zooSession) request(kind int32, body []byte, answered zooAnswer) {
	s.mu.Lock()
	if err := s.ended; err != nil {
		s.mu.Unlock()
		answered(nil, err)
		return
	}
	xid := int32(zooPingXid)
	if kind == zooPing {
		s.pings = append(s.pings, answered)
	} else {
		s.xid++
		xid = s.xid
		s.waiting = append(s.waiting, answered)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 12+len(body)), uint32(8+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(xid))  //nolint:gosec // its bits
	b = binary.BigEndian.AppendUint32(b, uint32(kind)) //nolint:gosec // its bits
	_, err := s.conn.Write(append(b, body...))         // in order with waiting
	s.mu.Unlock()
	if err != nil {
		_ = s.conn.Close()
	}
}

// Close ends a session.
func (c *zooConn) Close(held Session, done func(error)) {
	held.(*zooSession).ask(zooClose, done) //nolint:errcheck // this system's own
}

// Touch pings for each session: one message each.
func (c *zooConn) Touch(done func(error)) {
	c.mu.Lock()
	all := make([]*zooSession, 0, len(c.all))
	for s := range c.all {
		all = append(all, s)
	}
	c.mu.Unlock()
	join := join(len(all), done)
	for _, s := range all {
		s.ask(zooPing, join)
	}
}

// TouchOne sends one message for one session.
func (c *zooConn) TouchOne(held Session, done func(error)) {
	held.(*zooSession).ask(zooPing, done) //nolint:errcheck // this system's own
}

// OnExpired sets a callback for each session whose connection the server ends, as it does when the session expires.
func (c *zooConn) OnExpired(f func(sessions int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onExpired = f
}

// End drops all connections.
func (c *zooConn) End() {
	c.cancel()
	c.mu.Lock()
	for s := range c.all {
		_ = s.conn.Close()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// join returns a function for n answers. The last calls done, with the first error.
func join(n int, done func(error)) func(error) {
	if n == 0 {
		done(nil)
		return nil
	}
	var mu sync.Mutex
	var first error
	return func(err error) {
		mu.Lock()
		n--
		if first == nil {
			first = err
		}
		last, err := n == 0, first
		mu.Unlock()
		if last {
			done(err)
		}
	}
}
