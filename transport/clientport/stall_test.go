package clientport

import (
	"net"
	"sync"
)

// stall pauses the reading of connections, so that the client does not read what the server sends.
type stall struct {
	mu   sync.Mutex
	gate chan struct{}
}

func newStall() *stall {
	s := &stall{gate: make(chan struct{})}
	close(s.gate)
	return s
}

func (s *stall) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
}

func (s *stall) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gate)
}

func (s *stall) wrap(c net.Conn) net.Conn { return &stalledConn{Conn: c, stall: s} }

type stalledConn struct {
	net.Conn
	stall *stall
}

func (c *stalledConn) Read(b []byte) (int, error) {
	c.stall.mu.Lock()
	gate := c.stall.gate
	c.stall.mu.Unlock()
	<-gate
	return c.Conn.Read(b)
}
