package port

import (
	"net"
	"time"

	"golang.org/x/time/rate"

	"holdfast/session"
	"holdfast/transport/gate"
)

const (
	// refusalLogInterval keeps a flood of connections from becoming a flood of log lines.
	refusalLogInterval = time.Second
	// MaxTold is how many connections above a limit are served at once for as long as it takes to say so. The others
	// are closed as they come.
	MaxTold = 16
	// ToldWait is how long that may take.
	ToldWait = 2 * time.Second
)

// limited is a listener that gives connections their places. Of those that find none, some are served, and each of
// their calls is told why; the rest is closed at once: a connection that waits in the backlog instead would look to its
// client like a dead node.
type limited struct {
	net.Listener
	port *Port
	log  rate.Sometimes
}

func (p *Port) limit(l net.Listener) net.Listener {
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
		evicted, refused := l.port.Crowd.Enter(&w.Seat, gate.AddressOf(conn.RemoteAddr()))
		if evicted != nil {
			l.port.evict(evicted)
		}
		if refused == nil || l.refuse(w, refused) {
			return w, nil
		}
	}
}

// refuse reports whether a connection without a place is served nevertheless, to be told why it has none.
func (l *limited) refuse(w *Wire, why *session.LimitError) (told bool) {
	p := l.port
	p.Refused.Add(1)
	if why.Name == "max_connections_per_address" {
		p.Crowded.Add(1)
	}
	l.log.Do(func() {
		p.Logger.Warn("connection refused: over a limit", "limit", why.Name, "value", why.Limit,
			"remote", w.Conn.RemoteAddr().String(), "refused", p.Refused.Load())
	})
	if p.Told.Add(1) > MaxTold {
		p.Told.Add(-1)
		w.hangUp()
		return false
	}
	w.refused = why
	time.AfterFunc(ToldWait, w.hangUp)
	return true
}

// evict ends a connection that makes room for another. It does not wait.
func (p *Port) evict(s *Seat) {
	p.Evicted.Add(1)
	go s.end()
}

// LimitConnections returns a listener that keeps at most so many connections of l open: when one more comes, the oldest
// of the address that has most is closed.
func LimitConnections(l net.Listener, most int) net.Listener {
	return &bounded{Listener: l, crowd: Crowd{Limits: CrowdLimits{Connections: most}}}
}

type bounded struct {
	net.Listener
	crowd Crowd
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
		evicted, refused := b.crowd.Enter(&c.seat, gate.AddressOf(conn.RemoteAddr()))
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
	crowd *Crowd
	seat  Seat
}

// Close closes the connection and gives its place back.
func (c *boundedConn) Close() error {
	c.crowd.Leave(&c.seat)
	return c.Conn.Close()
}
