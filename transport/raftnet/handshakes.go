package raftnet

import (
	"net"
	"slices"
	"sync"
)

// handshakes are the accepted connections that have not greeted yet. The node of such a connection is unknown, but a
// real node greets at once. So when there are too many, one is evicted: of the address that has most, the one that has
// waited longest. A flood of connections from attackers evicts such connections, and a node always finds a place. Safe
// for concurrent use.
type handshakes struct {
	limit int

	mu sync.Mutex
	// pending are in the order of their arrival. guarded by mu
	pending []*handshake
}

// handshake is an accepted connection in its handshake.
type handshake struct {
	address string
	conn    net.Conn
}

// add adds conn. It returns the evicted handshake, whose connection the caller closes; nil for none.
func (hs *handshakes) add(conn net.Conn) (h, out *handshake) {
	h = &handshake{addressOf(conn), conn}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.pending = append(hs.pending, h)
	if len(hs.pending) <= hs.limit {
		return h, nil
	}
	count := map[string]int{}
	for _, one := range hs.pending {
		count[one.address]++
	}
	for _, one := range hs.pending {
		if out == nil || count[one.address] > count[out.address] {
			out = one
		}
	}
	hs.forget(out)
	return h, out
}

// remove removes a handshake that has ended, unless it was evicted.
func (hs *handshakes) remove(h *handshake) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.forget(h)
}

// forget is remove. Called with mu held.
func (hs *handshakes) forget(h *handshake) {
	if i := slices.Index(hs.pending, h); i >= 0 {
		hs.pending = slices.Delete(hs.pending, i, i+1)
	}
}

// addressOf returns the remote address of a connection, without its port.
func addressOf(conn net.Conn) string {
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
