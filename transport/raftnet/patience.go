package raftnet

import (
	"sync"
	"time"
)

// called is a dialled connection. Raft gives a whole request one deadline, and retries for ever a batch of entries or a
// snapshot that takes longer over a thin link. Here the deadline of such a request is one of idleness: the request
// fails when nothing has moved for as long as Raft would have waited for all of it. Movement is bytes that this end's
// kernel takes, bytes of an answer, and reports of the other end ([served]). Votes keep Raft's deadline.
//
// As on Raft's own connections, one goroutine at a time reads and writes, and any other may close it.
type called struct {
	guarded
	// silent says that reports are not heeded, so that each request has Raft's deadline.
	silent bool
	// revive dials a connection that was idle for long again, probe a connection that the other side has ended; nil: it
	// is kept.
	revive, probe func(timeout time.Duration)
	// timeout is Raft's timeout of the request. fresh says that the next byte written is the request's first, used that
	// the connection has had a request.
	timeout     time.Duration
	fresh, used bool

	mu sync.Mutex
	// patience is how long nothing may move; 0 for a request with Raft's deadline. guarded by mu
	patience time.Duration
	// overhears says that reports are read while a write waits. guarded by mu
	overhears bool
}

// SetDeadline begins a request: Raft sets one deadline for each.
func (c *called) SetDeadline(t time.Time) error {
	c.timeout, c.fresh = time.Until(t), true
	if c.revive != nil {
		c.revive(c.timeout)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = 0
	return c.Conn.SetDeadline(t)
}

// begin sets the patience by the first byte of a request, which is its kind.
func (c *called) begin(kind byte) error {
	used := c.used
	c.fresh, c.used = false, true
	if isVote(kind) && used && c.probe != nil {
		return c.vote()
	}
	if !isLong(kind) || c.timeout <= 0 || c.silent {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = c.timeout
	if kind == typeInstallSnapshot { // Raft's timeout is that of a whole one
		c.patience = snapshotPatience
	}
	return c.renew()
}

// vote begins a request for a vote on a connection that has been used. Raft keeps connections that it does not read.
// After the other node's process was started again they are all dead, and each costs one request. Raft asks for a vote
// only once in an election, so that such a connection could cost the election.
func (c *called) vote() error {
	end := time.Now().Add(c.timeout)
	c.probe(c.timeout)
	return c.Conn.SetDeadline(end)
}

// renew extends the deadline. Called with mu held.
func (c *called) renew() error {
	if c.patience == 0 {
		return nil
	}
	return c.Conn.SetDeadline(time.Now().Add(c.patience))
}

// moved extends the deadline because something has moved.
func (c *called) moved() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renew()
}

// Write writes a part of a request. A kernel whose buffer is full may take nothing for a long time although bytes move.
// So while a write waits, reports are read, and extend its deadline. The write cannot be ended and begun again instead:
// on a connection with TLS, a write that timed out is the last.
func (c *called) Write(b []byte) (int, error) {
	if c.fresh && len(b) > 0 {
		if err := c.begin(b[0]); err != nil {
			return 0, err
		}
	}
	stop := c.overhear()
	n, err := c.Conn.Write(b)
	stop()
	if err == nil {
		err = c.moved()
	}
	return n, err
}

// overhear lets listen read reports once a write has waited for a while, until stop.
func (c *called) overhear() (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.patience == 0 {
		return func() {}
	}
	over := make(chan struct{})
	c.overhears = true
	timer := time.AfterFunc(c.patience/reportsPerTimeout, func() {
		defer close(over)
		c.listen()
	})
	return func() {
		c.mu.Lock()
		c.overhears = false
		ran := !timer.Stop()
		if ran {
			// fails only when the connection is closed, and then listen has ended
			_ = c.SetReadDeadline(time.Unix(1, 0))
		}
		c.mu.Unlock()
		if ran {
			<-over
		}
	}
}

// listen reads reports until the write is over or other bytes come.
func (c *called) listen() {
	var b [64]byte
	for {
		n, err := c.Conn.Read(b[:])
		if n = c.drop(b[:n]); n > 0 {
			c.rest = append(c.rest, b[:n]...) // an early answer is for Read
			return
		}
		if err != nil || !c.overheard() {
			return
		}
	}
}

// overheard extends the deadline after a report, if the write still waits.
func (c *called) overheard() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overhears && c.renew() == nil
}

// Read returns the bytes of answers. Each answer and each report before it extends the deadline.
func (c *called) Read(b []byte) (int, error) {
	for !c.pending() {
		n, err := c.Conn.Read(b)
		if n > 0 && err == nil {
			err = c.moved()
		}
		if n = c.drop(b[:n]); n > 0 || err != nil || len(b) == 0 {
			return c.take(b[:n], err)
		}
	}
	return c.guarded.Read(b)
}

// drop removes reports from the beginning of b, if no answer is under way there, and returns how many bytes are left.
func (c *called) drop(b []byte) int {
	if !c.scan.between() {
		return len(b)
	}
	reports := 0
	for reports < len(b) && b[reports] == stillHere {
		reports++
	}
	return copy(b, b[reports:])
}
