package port

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// insideBuffer is the number of bytes that can wait in each direction of a connection of an [Inside].
const insideBuffer = 64 << 10

// Inside is a listener for callers in this process that act on behalf of others, such as the console for the person at
// the browser. Its connections have the address and the certificate of the represented party, so that a port authorizes
// each call as if that party made it. Safe for concurrent use.
type Inside struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// NewInside returns a listener without connections.
func NewInside() *Inside {
	return &Inside{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the port on behalf of the other side of a connection that another port of this process serves.
func (l *Inside) Dial(ctx context.Context, behalf net.Conn) (net.Conn, error) {
	pair := bufconn.Listen(insideBuffer)
	defer pair.Close() //nolint:errcheck // its connections outlive it
	type accepted struct {
		conn net.Conn
		err  error
	}
	served := make(chan accepted, 1)
	go func() {
		conn, err := pair.Accept()
		served <- accepted{conn, err}
	}()
	near, err := pair.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	far := <-served
	if far.err != nil {
		return nil, far.err
	}
	select {
	case l.accepted <- insideConn{far.conn, behalf}:
		return near, nil
	case <-l.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_, _ = near.Close(), far.conn.Close() // the connections are unused
	return nil, err
}

// Accept returns the next connection.
func (l *Inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and Dial fail. Existing connections stay open.
func (l *Inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a placeholder: an Inside has no address to dial.
func (*Inside) Addr() net.Addr { return insideAddr{} }

type insideAddr struct{}

// Network names the kind.
func (insideAddr) Network() string { return "inside" }

// String names the kind.
func (insideAddr) String() string { return "inside" }

// insideConn is the port's end of a connection.
type insideConn struct {
	net.Conn
	behalf net.Conn
}

// RemoteAddr returns the address of the represented party.
func (c insideConn) RemoteAddr() net.Addr { return c.behalf.RemoteAddr() }

// NetConn returns the connection of the represented party: see [secure.PeerCertificate].
func (c insideConn) NetConn() net.Conn { return c.behalf }
