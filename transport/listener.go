package transport

import (
	"net"
	"time"

	"golang.org/x/time/rate"

	"holdfast/session"
)

const (
	// refusalLogInterval keeps a flood of connections from becoming a flood of log lines.
	refusalLogInterval = time.Second
	// maxTold is how many connections above a limit are served at once for as long as it takes to say so, toldWait how long that may take. The
	// others are closed as they come.
	maxTold  = 16
	toldWait = 2 * time.Second
)

// limited is a listener that gives connections their places. Of those that find none, some are served, and each of their calls is told why; the rest
// is closed at once: a connection that waits in the backlog instead would look to its client like a dead node.
type limited struct {
	net.Listener
	port *port
	log  rate.Sometimes
}

func (p *port) limit(l net.Listener) net.Listener {
	return &limited{Listener: l, port: p, log: rate.Sometimes{Interval: refusalLogInterval}}
}

// Accept returns the next connection that is to be served.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		w := l.port.newWire(conn)
		evicted, refused := l.port.crowd.enter(&w.seat, addressOf(conn.RemoteAddr()))
		if evicted != nil {
			l.port.evict(evicted)
		}
		if refused == nil || l.refuse(w, refused) {
			return w, nil
		}
	}
}

// refuse reports whether a connection without a place is served nevertheless, to be told why it has none.
func (l *limited) refuse(w *wire, why *session.LimitError) (told bool) {
	p := l.port
	p.refused.Add(1)
	if why.Name == "max_connections_per_address" {
		p.crowded.Add(1)
	}
	l.log.Do(func() {
		p.logger.Warn("connection refused: over a limit", "limit", why.Name, "value", why.Limit,
			"remote", w.Conn.RemoteAddr().String(), "refused", p.refused.Load())
	})
	if p.told.Add(1) > maxTold {
		p.told.Add(-1)
		w.hangUp()
		return false
	}
	w.refused = why
	time.AfterFunc(toldWait, w.hangUp)
	return true
}

// evict ends a connection that makes room for another. It does not wait.
func (p *port) evict(s *seat) {
	p.evicted.Add(1)
	go s.end()
}

// LimitConnections returns a listener that keeps at most so many connections of l open: when one more comes, the oldest of the address that has
// most is closed.
func LimitConnections(l net.Listener, most int) net.Listener {
	return &bounded{Listener: l, crowd: crowd{limits: crowdLimits{connections: most}}}
}

type bounded struct {
	net.Listener
	crowd crowd
}

// Accept returns the next connection.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &boundedConn{Conn: conn, crowd: &b.crowd}
		c.seat.end = func() { _ = conn.Close() } // whose end nobody waits for
		evicted, refused := b.crowd.enter(&c.seat, addressOf(conn.RemoteAddr()))
		if evicted != nil {
			evicted.end()
		}
		if refused == nil {
			return c, nil
		}
		c.seat.end()
	}
}

type boundedConn struct {
	net.Conn
	crowd *crowd
	seat  seat
}

// Close closes the connection and gives its place back.
func (c *boundedConn) Close() error {
	c.crowd.leave(&c.seat)
	return c.Conn.Close()
}
