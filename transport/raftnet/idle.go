package raftnet

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// firstWait is how long an accepted connection may be silent after its greeting: Raft dials only when it has
	// something to say.
	firstWait = 10 * time.Second
	// idleLimit is how long an accepted connection may be silent between two requests. Raft keeps connections for rare
	// requests, such as votes.
	idleLimit = 10 * time.Minute
	// renewAfter is how long a dialled connection may have been idle when a request begins on it. After a longer time
	// it is dialled again first: the node at its other end may have given it up. Raft would lose a request on such a
	// connection, such as a vote that an election waits for.
	renewAfter = idleLimit / 2
)

// renewed is a dialled connection that is dialled again when a request begins after a long silence. As on Raft's own
// connections, one goroutine at a time reads and writes, and any other may close it.
type renewed struct {
	// redial makes another connection to the same node.
	redial func(timeout time.Duration) (net.Conn, error)

	mu sync.Mutex
	// conn is the current connection, used the moment of its last use. ended is set by Close. guarded by mu
	conn  net.Conn
	used  time.Time
	ended bool
}

func newRenewed(conn net.Conn, redial func(time.Duration) (net.Conn, error)) *renewed {
	return &renewed{conn: conn, redial: redial, used: time.Now()}
}

// now returns the current connection, and notes that it is used.
func (r *renewed) now() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = time.Now()
	return r.conn
}

func (r *renewed) current() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// renew dials again if the connection was idle for long.
func (r *renewed) renew(timeout time.Duration) {
	r.mu.Lock()
	idle := time.Since(r.used)
	r.mu.Unlock()
	if idle > renewAfter && timeout > 0 {
		r.replace(timeout)
	}
}

// probeWait is how long a live connection is listened to before a vote.
const probeWait = time.Millisecond

// probe dials again if the other side has ended the connection. Nothing else may come on it between two requests.
func (r *renewed) probe(timeout time.Duration) {
	conn := r.current()
	if conn.SetReadDeadline(time.Now().Add(probeWait)) == nil {
		n, err := conn.Read(make([]byte, 1))
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && n == 0 {
			return
		}
	}
	r.replace(timeout)
}

// replace dials again. If that fails, the old connection stays, and its error tells Raft.
func (r *renewed) replace(timeout time.Duration) {
	next, err := r.redial(timeout)
	if err != nil {
		return
	}
	r.mu.Lock()
	former := r.conn
	if r.ended {
		former = next
	} else {
		r.conn, r.used = next, time.Now()
	}
	r.mu.Unlock()
	_ = former.Close() // no longer needed
}

// Read reads from the current connection, as the other methods use it.
func (r *renewed) Read(b []byte) (int, error)         { return r.now().Read(b) }
func (r *renewed) Write(b []byte) (int, error)        { return r.now().Write(b) }
func (r *renewed) SetDeadline(t time.Time) error      { return r.current().SetDeadline(t) }
func (r *renewed) SetReadDeadline(t time.Time) error  { return r.current().SetReadDeadline(t) }
func (r *renewed) SetWriteDeadline(t time.Time) error { return r.current().SetWriteDeadline(t) }
func (r *renewed) LocalAddr() net.Addr                { return r.current().LocalAddr() }
func (r *renewed) RemoteAddr() net.Addr               { return r.current().RemoteAddr() }

// Close closes the connection for good.
func (r *renewed) Close() error {
	r.mu.Lock()
	r.ended = true
	conn := r.conn
	r.mu.Unlock()
	return conn.Close()
}
