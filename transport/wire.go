package transport

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"holdfast/session"
)

// wire is one network connection of a port: its place, and what waits on it. Safe for concurrent use, as a [net.Conn] is.
type wire struct {
	net.Conn
	port *port
	*account
	seat seat
	// refused is why the connection has no place; nil: it has one.
	refused *session.LimitError
	closing sync.Once
}

func (p *port) newWire(conn net.Conn) *wire {
	w := &wire{Conn: conn, port: p}
	w.seat.end = w.hangUp
	w.account = p.ledger.newAccount(func(after time.Duration) { time.AfterFunc(after, w.hangUp) })
	return w
}

// wireAddr is how gRPC hands a handler its connection.
type wireAddr struct {
	net.Addr
	wire *wire
}

// RemoteAddr returns an address that wireOf knows the connection by.
func (w *wire) RemoteAddr() net.Addr { return wireAddr{w.Conn.RemoteAddr(), w} }

// wireOf returns the connection of a call. A call that came over none has one that counts and bounds nothing.
func wireOf(ctx context.Context) *wire {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(wireAddr); ok {
			return a.wire
		}
	}
	return &wire{account: &account{}}
}

// Read counts what arrives.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.received(time.Now(), n)
	return n, err
}

// Write gives the client a bounded time to take what is written: one that takes nothing loses its connection. gRPC's keepalive alone would not
// end one that goes on sending, and gRPC leaves it to the reader to notice that writing failed.
func (w *wire) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.port.patience)); err != nil {
		return 0, err
	}
	n, err := w.Conn.Write(b)
	w.wrote(n)
	if err != nil {
		w.hangUp()
	}
	return n, err
}

// Close closes the connection and gives its place back.
func (w *wire) Close() error {
	w.closing.Do(func() {
		w.settleUp()
		w.port.crowd.leave(&w.seat)
		if w.refused != nil {
			w.port.told.Add(-1)
		}
	})
	return w.Conn.Close()
}

func (w *wire) hangUp() {
	if err := w.Close(); err != nil {
		w.port.logger.Debug("closing a connection", "error", err)
	}
}
