package raftnet

import (
	"sync"
	"time"
)

// called is a connection that was dialled. Raft gives a whole request one deadline, and tries a batch of entries or a
// snapshot that takes longer over a thin link for ever. Here the deadline of such a request is one of idleness: it
// fails when nothing has moved for as long as Raft would have waited for all of it. What moves is what this end's
// kernel takes, what is answered, and what the other end reports ([served]). Votes keep Raft's deadline.
//
// Like Raft's own connections it is read and written by one goroutine at a time; any other may close it.
type called struct {
	guarded
	// silent says that the other end makes no reports, so that each request has Raft's deadline.
	silent bool
	// revive has a connection that was idle for long dialled anew; nil: it is not.
	revive func(timeout time.Duration)
	// timeout is what Raft has given the request, whose first byte is the next to be written when fresh.
	timeout time.Duration
	fresh   bool

	mu sync.Mutex
	// patience is how long nothing may move, 0 for a request that has Raft's deadline. guarded by mu
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

// begin looks at the first byte of a request.
func (c *called) begin(kind byte) error {
	c.fresh = false
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

// renew puts the deadline off. The caller holds mu.
func (c *called) renew() error {
	if c.patience == 0 {
		return nil
	}
	return c.Conn.SetDeadline(time.Now().Add(c.patience))
}

// moved notes that something has moved.
func (c *called) moved() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renew()
}

// Write writes a part of a request. A kernel whose buffer is full may take nothing for a long time, though bytes
// move: so a write that waits has the reports read meanwhile, which put its deadline off. It cannot be ended and
// begun again instead: a write that timed out is the end of a connection with TLS.
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

// overhear has reports read as soon as a write has waited for a while, until stop.
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
			_ = c.SetReadDeadline(time.Unix(1, 0)) // an error says that it is closed, and nobody listens
		}
		c.mu.Unlock()
		if ran {
			<-over
		}
	}
}

// listen reads reports, until the write is over or something else comes.
func (c *called) listen() {
	var b [64]byte
	for {
		n, err := c.Conn.Read(b[:])
		if n = c.drop(b[:n]); n > 0 {
			c.rest = append(c.rest, b[:n]...) // an answer before its time is for Read
			return
		}
		if err != nil || !c.overheard() {
			return
		}
	}
}

// overheard puts the deadline off after a report, if the write still waits.
func (c *called) overheard() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overhears && c.renew() == nil
}

// Read gives what is answered, and puts the deadline off for it and for each report before it.
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

// drop takes reports off the beginning of b, which is never that of an answer, and returns how many bytes are left.
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
