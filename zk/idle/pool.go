// Package idle keeps connections that wait for their clients, without a goroutine for each (Z10 idle
// connections).
package idle

import (
	"net"
	"sync"
	"time"
)

// Pool keeps parked connections. While a connection is parked, the pool is its only owner. The pool hands each parked
// connection back once: when the client has sent something, when the client was silent for too long, or to the caller
// of Unpark. The zero Pool is ready, and starts its poller with the first connection. Safe for concurrent use.
type Pool struct {
	mu sync.Mutex
	// poller reports which connections have something to read; nil before the first connection. guarded by mu
	poller *poller
	// parked are the parked connections by key. A key is never used again. guarded by mu
	parked  map[uint64]parked
	lastKey uint64 // guarded by mu
	closed  bool   // guarded by mu
}

type parked struct {
	conn *Conn
	// timeout fires when the client was silent for too long.
	timeout *time.Timer
}

// Conn is a connection that a [Pool] can park. Only its owner uses it: the pool while the connection is parked.
type Conn struct {
	// socket is nil for a connection that cannot be parked.
	socket             *socket
	readable, timedOut func()
	// key is the key of a parked connection, otherwise 0. guarded by the pool's mu
	key uint64
}

// NewConn returns a connection that cannot be parked before [Conn.Attach]. The pool calls readable when there is
// something to read, and timedOut when nothing came in time. Each runs in a goroutine of its own, which then owns the
// connection.
func NewConn(readable, timedOut func()) *Conn { return &Conn{readable: readable, timedOut: timedOut} }

// Attach sets the network connection. A connection that is not a plain socket, such as TLS, cannot be parked.
func (c *Conn) Attach(n net.Conn) { c.socket = socketOf(n) }

// CanPark reports whether the connection is a socket that the poller accepts.
func (c *Conn) CanPark() bool { return c.socket != nil }

// Park parks a connection until its client sends something, at most until a moment. When Park returns true, the caller
// no longer owns the connection, which the pool may have handed back already.
func (p *Pool) Park(c *Conn, until time.Time) bool {
	if c.socket == nil {
		return false
	}
	p.mu.Lock()
	key, poller := p.insert(c, until)
	p.mu.Unlock()
	if key == 0 {
		return false
	}
	if poller.wait(c.socket, key) == nil {
		return true
	}
	// The socket was closed, and Unpark may have been called too; or the kernel has no memory.
	mine := p.take(key)
	if mine {
		c.socket = nil
	}
	return !mine
}

// insert adds a connection and returns its key, 0 if the pool refuses it. Called with mu held.
func (p *Pool) insert(c *Conn, until time.Time) (uint64, *poller) {
	if p.closed {
		return 0, nil
	}
	if p.poller == nil {
		var err error
		if p.poller, err = newPoller(p.handBack, p.fail); err != nil {
			return 0, nil // this connection waits in its goroutine, and the next connection tries again
		}
		p.parked = make(map[uint64]parked)
	}
	p.lastKey++
	key := p.lastKey
	c.key = key
	p.parked[key] = parked{c, time.AfterFunc(time.Until(until), func() {
		if p.take(key) {
			c.timedOut()
		}
	})}
	return key, p.poller
}

// take removes the connection of a key. It returns false if another goroutine has removed it.
func (p *Pool) take(key uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(key) != nil
}

// Unpark removes a connection from the pool. If it reports that the connection was parked, the caller owns it.
func (p *Pool) Unpark(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(c.key) != nil
}

// handBack returns readable connections to their owners. It skips keys that other goroutines have removed.
func (p *Pool) handBack(keys []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		if c := p.remove(key); c != nil {
			go c.readable()
		}
	}
}

// fail hands back all connections and parks no more: the poller has failed.
func (p *Pool) fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for key := range p.parked {
		go p.remove(key).readable()
	}
}

// remove returns the connection of a key, nil if there is none. Called with mu held.
func (p *Pool) remove(key uint64) *Conn {
	at, ok := p.parked[key]
	if !ok {
		return nil
	}
	delete(p.parked, key)
	at.timeout.Stop()
	at.conn.key = 0
	return at.conn
}

// size is how many connections are parked.
func (p *Pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.parked)
}

// Close ends the pool, which must be empty. A closed pool parks no connections.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	poller := p.poller
	p.mu.Unlock()
	if poller != nil {
		poller.close()
	}
}
