package transport

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// refusalLogInterval keeps a flood of connections from becoming a flood of log lines.
const refusalLogInterval = time.Second

// limited is a listener that closes connections above a limit as soon as it has accepted them. gRPC has no way to say why
// before HTTP/2 is spoken; a connection that waits in the backlog instead would look to its client like a dead node.
type limited struct {
	net.Listener
	port *port
	log  rate.Sometimes
}

func (p *port) limit(l net.Listener) net.Listener {
	return &limited{Listener: l, port: p, log: rate.Sometimes{Interval: refusalLogInterval}}
}

// Accept returns the next connection below the limit.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.port.connections.Add(1) > int64(l.port.maxConnections) {
			l.port.connections.Add(-1)
			l.refuse(conn, "max_connections", l.port.maxConnections)
			continue
		}
		address := addressOf(conn.RemoteAddr())
		if !l.port.crowd.enter(address) {
			l.port.connections.Add(-1)
			l.port.crowded.Add(1)
			l.refuse(conn, "max_connections_per_address", l.port.crowd.most)
			continue
		}
		return &counted{Conn: conn, port: l.port, address: address}, nil
	}
}

func (l *limited) refuse(conn net.Conn, limit string, value int) {
	l.port.refused.Add(1)
	l.log.Do(func() {
		l.port.logger.Warn("connection refused: over a limit", "limit", limit, "value", value,
			"remote", conn.RemoteAddr().String(), "refused", l.port.refused.Load())
	})
	if err := conn.Close(); err != nil {
		l.port.logger.Debug("closing a refused connection", "error", err)
	}
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn
	port    *port
	address netip.Addr
	once    sync.Once
}

// Close closes the connection.
func (c *counted) Close() error {
	c.once.Do(func() {
		c.port.crowd.leave(c.address)
		c.port.connections.Add(-1)
	})
	return c.Conn.Close()
}
