package raftnet

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// firstWait is the longest silence of an accepted connection after its greeting: Raft dials only to send a request.
	firstWait = 10 * time.Second
	// idleLimit is the longest silence of an accepted connection between two requests. Raft keeps connections for rare
	// requests, such as votes.
	idleLimit = 10 * time.Minute
	// renewAfter is the longest idle time of a dialled connection at the beginning of a request. After a longer time
	// the connection is renewed first, because the other end may have closed it. Raft would lose a request on such a
	// connection, such as a vote that an election waits for.
	renewAfter = idleLimit / 2
)

// renewed is a dialled connection that is dialled again when a request begins after a long silence. As on Raft's own
// connections, one goroutine at a time reads and writes, and any other may close it.
type renewed struct {
	// redial makes another connection to the same node.
	redial func(timeout time.Duration) (net.Conn, error)

	mu sync.Mutex
	// conn is the current connection, used the time of its last use. ended is set by Close. guarded by mu
	conn  net.Conn
	used  time.Time
	ended bool
}

func newRenewed(conn net.Conn, redial func(time.Duration) (net.Conn, error)) *renewed {
	return &renewed{conn: conn, redial: redial, used: time.Now()}
}

// now returns the current connection, and records its use.
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

// probeWait is the time for which probe waits for the end of a connection before a vote.
const probeWait = time.Millisecond

// probe dials again if the other side has ended the connection. Between two requests, only the end can arrive on it.
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

// replace dials again. If that fails, the old connection stays, and its error reaches Raft.
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

// Read reads from the current connection; the other methods use it too.
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
