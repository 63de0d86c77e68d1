package raftnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// stillHere is the byte that says that a request is under way. Msgpack never uses it, so no answer begins with it.
	stillHere = 0xc1
	// reportsPerTimeout is how often a node says so in the time after which a dialler that hears nothing gives up.
	reportsPerTimeout = 5
	// snapshotPatience is how long no byte of a snapshot may move, on either side, and how long one of any request
	// may not on the side that was dialled. A transfer of an hour is not thrown away for a hiccup of seconds; a
	// leader that vanished in the middle of one holds the follower, which can vote for nobody meanwhile, no longer
	// than this.
	snapshotPatience = 5 * time.Second
)

// errStalled is why a request that stopped in its middle is given up.
var errStalled = errors.New("nothing of a raft request has come for too long")

// served is a connection that was accepted. While a request with entries or a snapshot is under way it tells the
// dialler so, unless no byte has come since it last did. Only this end knows: what the dialler's kernel has taken may
// be minutes from here on a thin link, and what has arrived may take minutes to be written or restored. Read and
// Write are called by one goroutine at a time.
type served struct {
	guarded
	interval time.Duration
	// silent says that the dialler does not know reports.
	silent bool
	// begun is when it was accepted, heard how much later something came last, 0 before anything did.
	begun time.Time
	heard atomic.Int64
	// left is called when it is closed, perhaps more than once.
	left func()

	mu sync.Mutex
	// timer reports every interval while busy: from the first byte of a request until its answer. guarded by mu
	timer *time.Timer
	busy  bool
	// moved says that bytes have come since the last report, whole that all have. guarded by mu
	moved, whole bool
}

// newServed returns conn as one that reports to a dialler which gives up after timeout.
func newServed(conn net.Conn, timeout time.Duration) *served {
	s := &served{
		guarded: guarded{Conn: conn, scan: scanner{requests: true}}, interval: timeout / reportsPerTimeout,
		begun: time.Now(), left: func() {},
	}
	s.timer = time.AfterFunc(time.Hour, s.report)
	s.timer.Stop()
	return s
}

// spoke returns when something came last.
func (s *served) spoke() time.Time { return s.begun.Add(time.Duration(s.heard.Load())) }

// Read gives what has come of requests. A connection that is silent for too long between two ends. One that stops in
// its middle ends the connection, and with it the waiting of whoever reads it: Raft reads a snapshot on the goroutine
// that does everything else.
func (s *served) Read(b []byte) (int, error) {
	patience, late := idleLimit, io.EOF // which is nothing to complain of
	switch {
	case s.scan.under():
		patience, late = snapshotPatience, errStalled
	case s.heard.Load() == 0:
		patience = firstWait
	}
	if err := s.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	n, err := s.guarded.Read(b)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		s.refused, err = late, late
	}
	if n > 0 {
		s.heard.Store(int64(max(time.Since(s.begun), 1)))
	}
	if n > 0 && s.scan.long() && !s.silent {
		s.busies(!s.scan.under())
	}
	return n, err
}

// busies notes that bytes of a request have come, and whether they were the last.
func (s *served) busies(whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved, s.whole = true, whole
	if !s.busy {
		s.busy = true
		s.timer.Reset(s.interval)
	}
}

// report tells the dialler that the request moves, or is being worked on. How long the work may take is not judged
// here: when a disk hangs, the watchdog cuts this node off.
func (s *served) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy {
		return
	}
	if s.moved || s.whole {
		s.moved = false
		if err := s.say([]byte{stillHere}); err != nil {
			_ = s.Conn.Close() // the dialler is gone: whoever reads its request finds that out now
			return
		}
	}
	s.timer.Reset(s.interval)
}

func (s *served) say(b []byte) error {
	err := s.SetWriteDeadline(time.Now().Add(snapshotPatience))
	if err == nil {
		_, err = s.Conn.Write(b)
	}
	return err
}

// Write writes an answer, before which the last report was made.
func (s *served) Write(b []byte) (int, error) {
	s.quiet()
	if err := s.SetWriteDeadline(time.Now().Add(snapshotPatience)); err != nil {
		return 0, err
	}
	return s.guarded.Write(b)
}

// quiet ends the reports. It waits for one that is being written.
func (s *served) quiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.timer.Stop()
}

// Close closes the connection.
func (s *served) Close() error {
	err := s.Conn.Close()
	s.quiet()
	s.left()
	return err
}
