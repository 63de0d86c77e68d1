package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	// handshakeTimeout bounds a handshake.
	handshakeTimeout = 5 * time.Second
	// farewell bounds the time that a closing connection takes to send its end. A side that reads nothing must not
	// delay the closing side.
	farewell = 100 * time.Millisecond
	// lingerTime and lingerBytes bound the wait for a refused side to read the reason: a connection that is closed with
	// unread bytes is reset, and the reason is lost.
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 64 << 10
)

// Conn is a connection with TLS, or without TLS where the mode of its port permits that. An accepted Conn does its
// handshake with its first Read or Write, or with HandshakeContext. Safe for concurrent use, as a [net.Conn] is.
type Conn struct {
	*lower
	// shake does the handshake: it sets upper, or returns an error.
	shake func(ctx context.Context, c *Conn) error
	begun atomic.Bool
	// done is closed once upper, state and err are set.
	done  chan struct{}
	upper net.Conn
	// state is the state of TLS; nil without TLS.
	state *tls.ConnectionState
	err   error
	// verify returns an error unless m accepts the certificates of the other side.
	verify func(m *Material, now time.Time) error
	// first returns the meaning of the first error, or the first bytes, of a read; nil for none.
	first func(b []byte, err error) error
	read  atomic.Bool
	// store is the store of the side that made the connection; nil without TLS. It lists the connection once the other
	// side has shown a certificate.
	store *Store
}

// NetConn returns the underlying connection.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// HandshakeContext does the handshake, unless it was done.
func (c *Conn) HandshakeContext(ctx context.Context) error {
	if c.begun.CompareAndSwap(false, true) {
		bounded, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		c.err = c.shake(bounded, c)
		close(c.done)
	}
	<-c.done
	return c.err
}

func (c *Conn) ready() error {
	select {
	case <-c.done:
		return c.err
	default:
		return c.HandshakeContext(context.Background()) //nolint:forbidigo // reading and writing have no context
	}
}

// Read reads. With TLS 1.3, a dialling side may read before it learns whether its certificate was accepted: so the
// first error may be the handshake's.
func (c *Conn) Read(b []byte) (int, error) {
	if err := c.ready(); err != nil {
		return 0, err
	}
	n, err := c.upper.Read(b)
	if c.first != nil && !c.read.Swap(true) {
		if why := c.first(b[:n], err); why != nil {
			return 0, why
		}
	}
	return n, err
}

// Write writes.
func (c *Conn) Write(b []byte) (int, error) {
	if err := c.ready(); err != nil {
		return 0, err
	}
	return c.upper.Write(b)
}

// Close closes the connection. It does not wait for the other side.
func (c *Conn) Close() error {
	c.closing.Store(true) // before forget: see secured
	c.forget()
	select {
	case <-c.done:
		if c.upper != nil {
			return c.upper.Close()
		}
	default:
	}
	return c.Conn.Close()
}

// cut closes the connection from another goroutine than its user's.
func (c *Conn) cut() {
	c.forget()
	_ = c.Conn.Close() // its user reads the error
}

func (c *Conn) forget() {
	if c.store != nil {
		c.store.remove(c)
	}
}

// accepted verifies the certificate of the other side against m at the given time.
func (c *Conn) accepted(m *Material, now time.Time) error { return c.verify(m, now) }

// certificate returns the verified certificate of the other side; nil for none.
func (c *Conn) certificate() *x509.Certificate {
	select {
	case <-c.done:
	default:
		return nil
	}
	if c.err != nil || c.state == nil || len(c.state.PeerCertificates) == 0 {
		return nil
	}
	return c.state.PeerCertificates[0]
}

// secured makes t the upper end of the connection, and lists it in its store if the other side has a certificate. A
// connection that was closed during its handshake must not stay in the store for ever.
func (c *Conn) secured(t *tls.Conn, by *Material) error {
	state := t.ConnectionState()
	c.upper, c.state = t, &state
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	err := c.store.add(c, by)
	if c.closing.Load() {
		c.forget()
	}
	return err
}

// ofConn returns the Conn that conn is or wraps; nil for none.
func ofConn(conn net.Conn) *Conn {
	for conn != nil {
		if c, ok := conn.(*Conn); ok {
			return c
		}
		below, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		conn = below.NetConn()
	}
	return nil
}

// Handshake does the handshake of a connection that a [Server] accepted, unless it was done. For other connections it
// returns nil at once.
func Handshake(ctx context.Context, conn net.Conn) error {
	if c := ofConn(conn); c != nil {
		return c.HandshakeContext(ctx)
	}
	return nil
}

// PeerCertificate returns the verified certificate of the other side of a connection; nil for none. conn may wrap a
// connection of a [Server] or a [Dialer] if it has a method NetConn.
func PeerCertificate(conn net.Conn) *x509.Certificate {
	if c := ofConn(conn); c != nil {
		return c.certificate()
	}
	return nil
}

// Refused returns the connection below TLS, for the port's own answer to a caller without TLS.
func Refused(conn net.Conn) net.Conn {
	if c := ofConn(conn); c != nil {
		return c.lower
	}
	return conn
}

// Bare returns the innermost connection of a connection without TLS, the first one without a method NetConn. It is nil
// for a connection with TLS, and while there are bytes that were read ahead. Only the goroutine that reads from conn
// may call it.
func Bare(conn net.Conn) net.Conn {
	for {
		switch c := conn.(type) {
		case *Conn:
			if c.upper != net.Conn(c.lower) || len(c.peeked) > 0 {
				return nil
			}
		case *tls.Conn:
			return nil
		}
		below, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = below.NetConn()
	}
}

// lower is the connection below TLS. Read returns bytes again that peek has returned.
type lower struct {
	net.Conn
	// peeked are bytes that peek has read. They belong to the reading goroutine.
	peeked  []byte
	closing atomic.Bool
}

// peek returns some of the first bytes, at least one.
func (l *lower) peek() ([]byte, error) {
	b := make([]byte, 16)
	n, err := l.Conn.Read(b)
	l.peeked = b[:n]
	if n > 0 {
		err = nil
	}
	return l.peeked, err
}

// Read returns the bytes that peek has read, then the following ones.
func (l *lower) Read(b []byte) (int, error) {
	if len(l.peeked) > 0 {
		n := copy(b, l.peeked)
		if l.peeked = l.peeked[n:]; len(l.peeked) == 0 {
			l.peeked = nil
		}
		return n, nil
	}
	return l.Conn.Read(b)
}

// SetWriteDeadline sets the deadline, or an earlier one while the connection is closing.
func (l *lower) SetWriteDeadline(t time.Time) error {
	if l.closing.Load() {
		t = time.Now().Add(farewell)
	}
	return l.Conn.SetWriteDeadline(t)
}

// linger gives a refused side a moment to read the reason.
func (l *lower) linger() {
	if l.SetDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the other side may be gone
	}
	_, _ = io.CopyN(io.Discard, l.Conn, lingerBytes) // the content no longer matters
}
