package raftnet

import (
	"sync"
	"time"
)

// called is a dialled connection. Raft sets one deadline for a whole request, and on a slow link retries a large batch
// of entries or a snapshot for ever. Here the deadline of such a request is a limit on idleness: the request fails when
// no bytes have moved for as long as Raft would have waited for the whole request. Movement is bytes that this end's
// kernel accepts, bytes of an answer, and reports of the other end ([served]). Votes keep Raft's deadline.
//
// As on Raft's own connections, one goroutine at a time reads and writes, and any other may close it.
type called struct {
	scannedConn
	// silent says that reports are ignored, so that each request has Raft's deadline.
	silent bool
	// revive renews a connection after a long idle time, probe a connection that the other side has ended; nil: the
	// connection is kept.
	revive, probe func(timeout time.Duration)
	// timeout is Raft's timeout of the request. fresh says that the next written byte is the request's first, used that
	// the connection has had a request.
	timeout     time.Duration
	fresh, used bool

	mu sync.Mutex
	// idleTimeout is the longest idle time; 0 for a request with Raft's deadline. guarded by mu
	idleTimeout time.Duration
	// listening says that reports are read while a write blocks. guarded by mu
	listening bool
}

// SetDeadline begins a request: Raft sets one deadline for each.
func (c *called) SetDeadline(t time.Time) error {
	c.timeout, c.fresh = time.Until(t), true
	if c.revive != nil {
		c.revive(c.timeout)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idleTimeout = 0
	return c.Conn.SetDeadline(t)
}

// begin sets the timeout from the first byte of a request, which is its kind.
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
	c.idleTimeout = c.timeout
	if kind == typeInstallSnapshot { // Raft's timeout is for a whole snapshot
		c.idleTimeout = snapshotTimeout
	}
	return c.renew()
}

// vote begins a request for a vote on a used connection. Raft keeps connections that it does not read. After a restart
// of the other node's process they are all dead, and each costs one request. Raft asks for a vote only once in an
// election, so such a connection could cost the election.
func (c *called) vote() error {
	end := time.Now().Add(c.timeout)
	c.probe(c.timeout)
	return c.Conn.SetDeadline(end)
}

// renew extends the deadline. Called with mu held.
func (c *called) renew() error {
	if c.idleTimeout == 0 {
		return nil
	}
	return c.Conn.SetDeadline(time.Now().Add(c.idleTimeout))
}

// moved extends the deadline because bytes have moved.
func (c *called) moved() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renew()
}

// Write writes a part of a request. A kernel whose buffer is full may accept no bytes for a long time although bytes
// move. So while a write blocks, reports are read, and extend its deadline. The write cannot be interrupted and
// repeated instead: on a connection with TLS, a write that timed out is the last.
func (c *called) Write(b []byte) (int, error) {
	if c.fresh && len(b) > 0 {
		if err := c.begin(b[0]); err != nil {
			return 0, err
		}
	}
	stop := c.listenDuringWrite()
	n, err := c.Conn.Write(b)
	stop()
	if err == nil {
		err = c.moved()
	}
	return n, err
}

// listenDuringWrite makes listen read reports once a write has blocked for a while, until stop.
func (c *called) listenDuringWrite() (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idleTimeout == 0 {
		return func() {}
	}
	over := make(chan struct{})
	c.listening = true
	timer := time.AfterFunc(c.idleTimeout/reportsPerTimeout, func() {
		defer close(over)
		c.listen()
	})
	return func() {
		c.mu.Lock()
		c.listening = false
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

// listen reads reports until the write is over or other bytes arrive.
func (c *called) listen() {
	var b [64]byte
	for {
		n, err := c.Conn.Read(b[:])
		if n = c.drop(b[:n]); n > 0 {
			c.rest = append(c.rest, b[:n]...) // an early answer is for Read
			return
		}
		if err != nil || !c.extend() {
			return
		}
	}
}

// extend extends the deadline after a report, if the write still blocks.
func (c *called) extend() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listening && c.renew() == nil
}

// Read returns the bytes of answers. Each answer and each report before it extends the deadline.
func (c *called) Read(b []byte) (int, error) {
	for !c.pending() {
		n, err := c.Conn.Read(b)
		if n > 0 && err == nil {
			err = c.moved()
		}
		if n = c.drop(b[:n]); n > 0 || err != nil || len(b) == 0 {
			return c.scanBytes(b[:n], err)
		}
	}
	return c.scannedConn.Read(b)
}

// drop removes reports from the beginning of b, unless b continues an answer, and returns the number of remaining
// bytes.
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
