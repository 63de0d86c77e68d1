package port

import (
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"holdfast/session"
	"holdfast/transport/ratelimit"
)

const (
	// refusalLogInterval keeps a flood of connections from becoming a flood of log lines.
	refusalLogInterval = time.Second
	// MaxRefusing is the largest number of refused connections that are served at once, to refuse their calls with a
	// reason. Further refused connections are closed at once.
	MaxRefusing = 16
	// RefusingWait is the time for which a refused connection is served.
	RefusingWait = 2 * time.Second
)

// limited is a listener that assigns slots to connections. It serves a few of the refused connections for a moment, to
// refuse their calls with a reason, and closes the others at once. A connection that waited in the backlog instead
// would look to its client like a dead node.
type limited struct {
	net.Listener
	port *Port
	log  rate.Sometimes
}

func (p *Port) limit(l net.Listener) net.Listener {
	return &limited{Listener: l, port: p, log: rate.Sometimes{Interval: refusalLogInterval}}
}

// Accept returns the next connection to serve.
func (l *limited) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := l.port.newConn(accepted)
		evicted, refused := l.port.limiter.enter(&c.slot, ratelimit.AddressOf(accepted.RemoteAddr()))
		if evicted != nil {
			l.port.evict(evicted)
		}
		if refused == nil || l.refuse(c, refused) {
			return c, nil
		}
	}
}

// refuse reports whether to serve a connection without a slot for a moment, to refuse its calls with why.
func (l *limited) refuse(c *Conn, why *session.LimitError) (served bool) {
	p := l.port
	p.refused.Add(1)
	if why.Name == connectionsPerAddress {
		p.refusedPerAddress.Add(1)
	}
	l.log.Do(func() {
		p.logger.Warn("connection refused: over a limit", "limit", why.Name, "value", why.Limit,
			"remote", c.Conn.RemoteAddr().String(), "refused", p.refused.Load())
	})
	if p.refusing.Add(1) > MaxRefusing {
		p.refusing.Add(-1)
		c.hangUp()
		return false
	}
	c.refused = why
	time.AfterFunc(RefusingWait, c.hangUp)
	return true
}

// evict ends a connection in favour of another. It does not wait.
func (p *Port) evict(s *slot) {
	p.evicted.Add(1)
	go s.end()
}

// LimitConnections returns a listener that keeps at most limit connections of l open. When one more comes, it closes
// the oldest connection of the address that holds most.
func LimitConnections(l net.Listener, limit int) net.Listener {
	return &bounded{Listener: l, limiter: limiter{limits: Limits{Connections: limit}}}
}

// LimitClients is LimitConnections for a port whose connections are all in use. A connection is not closed for an
// address that would then hold more connections: the newcomer replaces the oldest connection of its own address, and is
// refused when there is none. So neither one address, nor one more address than there are places, can close the
// connections of others again and again.
//
// The listener also refuses further connections of an address that already has perAddress, 0 for no such limit. It does
// not close one of the address's own connections for the newcomer: the closed client would come back, and close that of
// another client.
func LimitClients(l net.Listener, limit, perAddress int, logger hclog.Logger) net.Listener {
	return &bounded{
		Listener: l, limiter: limiter{limits: Limits{Connections: limit}, served: true}, perAddress: perAddress, logger: logger,
		log: rate.Sometimes{Interval: refusalLogInterval},
	}
}

type bounded struct {
	net.Listener
	limiter    limiter
	perAddress int
	logger     hclog.Logger
	log        rate.Sometimes
}

// full reports whether an address has its largest number of connections.
func (b *bounded) full(address netip.Addr) bool {
	return b.perAddress > 0 && address.IsValid() && b.limiter.held(address) >= b.perAddress
}

// Accept returns the next connection.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := ratelimit.AddressOf(conn.RemoteAddr())
		if b.full(address) {
			b.refuse(conn, &session.LimitError{Name: connectionsPerAddress, Limit: strconv.Itoa(b.perAddress)})
			continue
		}
		c := &boundedConn{Conn: conn, limiter: &b.limiter}
		c.slot.end = func() { shutDown(conn) }
		evicted, refused := b.limiter.enter(&c.slot, address)
		if evicted != nil {
			evicted.end()
		}
		if refused == nil {
			return c, nil
		}
		b.refuse(conn, refused)
	}
}

// refuse closes a connection that gets no slot. [LimitConnections] refuses none: each newcomer replaces an older one.
func (b *bounded) refuse(conn net.Conn, why *session.LimitError) {
	b.log.Do(func() {
		b.logger.Warn("connection refused: over a limit", "limit", why.Name, "value", why.Limit,
			"remote", conn.RemoteAddr().String())
	})
	_ = conn.Close() // the connection has no owner yet
}

// shutDownTime is the time that the owner of an evicted connection has to close it.
const shutDownTime = time.Second

// shutDown ends an evicted connection. Its owner reads the end and closes the connection: an owner that waits with the
// kernel's epoll would not notice a closed socket. If the owner reads nothing, shutDown closes the connection itself.
func shutDown(conn net.Conn) {
	halves, ok := conn.(interface {
		CloseRead() error
		CloseWrite() error
	})
	if !ok {
		_ = conn.Close() // no goroutine waits for its end
		return
	}
	_ = halves.CloseWrite() // the other side may be gone
	_ = halves.CloseRead()
	time.AfterFunc(shutDownTime, func() { _ = conn.Close() })
}

type boundedConn struct {
	net.Conn
	limiter *limiter
	slot    slot
}

// NetConn returns the underlying connection.
func (c *boundedConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and frees its slot.
func (c *boundedConn) Close() error {
	c.limiter.free(&c.slot)
	return c.Conn.Close()
}
