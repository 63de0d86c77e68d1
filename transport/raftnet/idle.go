package raftnet

import (
	"net"
	"sync"
	"time"
)

const (
	// firstWait is how long a connection that was accepted may be silent after its greeting: Raft dials because it has
	// something to say.
	firstWait = 10 * time.Second
	// idleLimit is how long it may be silent between two requests. Raft keeps connections for what it says seldom, such
	// as votes.
	idleLimit = 10 * time.Minute
	// renewAfter is how long a connection that was dialled may have been idle when a request begins on it. A longer one
	// is dialled anew before: the node at its other end may have given it up, and Raft would lose a request on it, such
	// as the vote that an election waits for.
	renewAfter = idleLimit / 2
)

// renewed is a connection that was dialled, and is dialled anew when a request begins after a long silence. Like Raft's
// own connections it is read and written by one goroutine at a time; any other may close it.
type renewed struct {
	// redial makes another connection to the same node.
	redial func(timeout time.Duration) (net.Conn, error)

	mu sync.Mutex
	// conn is the connection of now, used when it was used last, ended set by Close. guarded by mu
	conn  net.Conn
	used  time.Time
	ended bool
}

func newRenewed(conn net.Conn, redial func(time.Duration) (net.Conn, error)) *renewed {
	return &renewed{conn: conn, redial: redial, used: time.Now()}
}

// now returns the connection of now, and notes that it is used.
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

// renew dials anew if the connection was idle for long. The former one stays if nobody can be reached: it says why
// then.
func (r *renewed) renew(timeout time.Duration) {
	r.mu.Lock()
	idle := time.Since(r.used)
	r.mu.Unlock()
	if idle <= renewAfter || timeout <= 0 {
		return
	}
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
	_ = former.Close() // nobody needs it any more
}

// Read reads from the connection of now, as do the others.
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
