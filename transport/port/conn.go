package port

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"holdfast/session"
)

// Conn is one network connection of a port, with its slot and the account of its waiting bytes. Safe for concurrent
// use, as a [net.Conn] is.
type Conn struct {
	net.Conn
	port *Port
	*Account
	slot slot
	// refused is why the connection has no slot; nil if it has one.
	refused *session.LimitError
	closing sync.Once
}

func (p *Port) newConn(conn net.Conn) *Conn {
	c := &Conn{Conn: conn, port: p}
	c.slot.end = c.hangUp
	c.Account = p.ledger.NewAccount(func(after time.Duration) { time.AfterFunc(after, c.hangUp) })
	return c
}

// NetConn returns the connection that the port accepted.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// connAddr carries a handler's connection through gRPC.
type connAddr struct {
	net.Addr
	conn *Conn
}

// RemoteAddr returns an address in which ConnOf finds the connection.
func (c *Conn) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

// ConnOf returns the connection of a call. A call without a port gets a connection without bounds.
func ConnOf(ctx context.Context) *Conn {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(connAddr); ok {
			return a.conn
		}
	}
	return &Conn{Account: &Account{}}
}

// SetBusy marks the connection as serving a session or a request: it is not evicted until it is idle. Each SetBusy has
// its SetIdle.
func (c *Conn) SetBusy() {
	if c.port != nil {
		c.port.limiter.setBusy(&c.slot)
	}
}

// SetIdle reverts one SetBusy.
func (c *Conn) SetIdle() {
	if c.port != nil {
		c.port.limiter.setIdle(&c.slot)
	}
}

// Shared reports whether the connection has more than one call.
func (c *Conn) Shared() bool { return c.port != nil && c.port.limiter.shared(&c.slot) }

// Read counts the bytes that arrive.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received(time.Now(), n)
	return n, err
}

// Write gives the client limited time to read, and closes the connection of a client that reads nothing. gRPC's
// keepalive alone would not end a client that still sends, and gRPC leaves it to the reader to detect that a write
// failed.
func (c *Conn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.port.readTimeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	c.wrote(n)
	if err != nil {
		c.hangUp()
	}
	return n, err
}

// Close closes the connection and frees its slot.
func (c *Conn) Close() error {
	c.closing.Do(func() {
		c.closeWith(nil)
		c.port.limiter.free(&c.slot)
		if c.refused != nil {
			c.port.refusing.Add(-1)
		}
	})
	return c.Conn.Close()
}

func (c *Conn) hangUp() {
	if err := c.Close(); err != nil {
		c.port.logger.Debug("closing a connection", "error", err)
	}
}
