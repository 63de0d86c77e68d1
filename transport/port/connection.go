package port

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"holdfast/session"
)

// Wire is one network connection of a port: its place, and what waits on it. Safe for concurrent use, as a [net.Conn]
// is.
type Wire struct {
	net.Conn
	port *Port
	*Account
	Seat Seat
	// refused is why the connection has no place; nil: it has one.
	refused *session.LimitError
	closing sync.Once
}

func (p *Port) newWire(conn net.Conn) *Wire {
	w := &Wire{Conn: conn, port: p}
	w.Seat.end = w.hangUp
	w.Account = p.Ledger.NewAccount(func(after time.Duration) { time.AfterFunc(after, w.hangUp) })
	return w
}

// wireAddr is how gRPC hands a handler its connection.
type wireAddr struct {
	net.Addr
	wire *Wire
}

// RemoteAddr returns an address that wireOf knows the connection by.
func (w *Wire) RemoteAddr() net.Addr { return wireAddr{w.Conn.RemoteAddr(), w} }

// WireOf returns the connection of a call. A call that came over none has one that counts and bounds nothing.
func WireOf(ctx context.Context) *Wire {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(wireAddr); ok {
			return a.wire
		}
	}
	return &Wire{Account: &Account{}}
}

// Read counts what arrives.
func (w *Wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.Received(time.Now(), n)
	return n, err
}

// Write gives the client a bounded time to take what is written: one that takes nothing loses its connection. gRPC's
// keepalive alone would not end one that goes on sending, and gRPC leaves it to the reader to notice that writing
// failed.
func (w *Wire) Write(b []byte) (int, error) {
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
func (w *Wire) Close() error {
	w.closing.Do(func() {
		w.settleUp()
		w.port.Crowd.Leave(&w.Seat)
		if w.refused != nil {
			w.port.Told.Add(-1)
		}
	})
	return w.Conn.Close()
}

func (w *Wire) hangUp() {
	if err := w.Close(); err != nil {
		w.port.Logger.Debug("closing a connection", "error", err)
	}
}
