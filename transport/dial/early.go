package dial

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"holdfast/session"
)

// Early remembers why the TLS handshake of a connection failed. gRPC reports such causes only as text. Safe for
// concurrent use.
type Early struct {
	mu  sync.Mutex
	err *session.TLSError // guarded by mu; of the newest connection, nil when the handshake succeeded
}

// Watch returns a dial function whose connections report to e until their first bytes.
func (e *Early) Watch(dial func(context.Context, string) (net.Conn, error),
) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			e.note(err)
			return nil, err
		}
		return &earlyConn{Conn: conn, early: e}, nil
	}
}

// Err returns why the newest connection failed; nil if TLS was not the reason.
func (e *Early) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		return nil
	}
	return e.err
}

func (e *Early) note(err error) {
	why, _ := errors.AsType[*session.TLSError](err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = why
}

type earlyConn struct {
	net.Conn
	early    *Early
	received atomic.Bool
}

// Read records whether the first bytes are a TLS error.
func (c *earlyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.received.Swap(true) {
		c.early.note(err)
	}
	return n, err
}

// NetConn returns the underlying connection.
func (c *earlyConn) NetConn() net.Conn { return c.Conn }
