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
	// stillHere is the report that a request is in progress. Msgpack never uses this byte, so no answer begins with it.
	stillHere = 0xc1
	// reportsPerTimeout is the number of reports in the time after which a dialler without a report gives up.
	reportsPerTimeout = 5
	// snapshotTimeout is the longest time without progress for a snapshot on either side, and for any request on the
	// dialled side. It is long enough that a hiccup of seconds does not waste a transfer of an hour. It is short enough
	// for a leader that vanishes in the middle of a snapshot: the follower can vote for no node meanwhile.
	snapshotTimeout = 5 * time.Second
)

// errStalled says that a request stopped in its middle.
var errStalled = errors.New("a raft request has stopped in its middle for too long")

// served is an accepted connection. While a request with entries or a snapshot is in progress, it sends reports to the
// dialler, unless no byte has arrived since the last report. Only this end knows the progress. On a slow link, bytes
// that the dialler's kernel has accepted may still be minutes away, and bytes that have arrived may take minutes to be
// written or restored. One goroutine at a time calls Read and Write.
type served struct {
	scannedConn
	interval time.Duration
	// begun is the time of acceptance. lastReceived is the time from begun to the last arrival of bytes; 0 before the
	// first.
	begun        time.Time
	lastReceived atomic.Int64
	// left is called when the connection is closed, perhaps more than once. lost says that the other side ended it.
	left func()
	lost atomic.Bool

	mu sync.Mutex
	// timer sends a report every interval while busy: from the first byte of a request until its answer. guarded by mu
	timer *time.Timer
	busy  bool
	// moved says that bytes have arrived since the last report, whole that the request is complete. guarded by mu
	moved, whole bool
}

// newServed wraps conn in a connection that sends reports to a dialler with this timeout.
func newServed(conn net.Conn, timeout time.Duration) *served {
	s := &served{
		scannedConn: scannedConn{Conn: conn, scan: scanner{requests: true}}, interval: timeout / reportsPerTimeout,
		begun: time.Now(), left: func() {},
	}
	s.timer = time.AfterFunc(time.Hour, s.report)
	s.timer.Stop()
	return s
}

// spoke returns the time of the last arrival of bytes.
func (s *served) spoke() time.Time { return s.begun.Add(time.Duration(s.lastReceived.Load())) }

// Read returns bytes of requests. A connection that is silent for too long between two requests ends. A request that
// stops in its middle ends the connection too, and so releases its reader: Raft reads a snapshot on its main goroutine.
func (s *served) Read(b []byte) (int, error) {
	timeout, late := idleLimit, io.EOF // an idle connection ends without an error
	switch {
	case s.scan.under():
		timeout, late = snapshotTimeout, errStalled
	case s.lastReceived.Load() == 0:
		timeout = firstWait
	}
	if err := s.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	n, err := s.scannedConn.Read(b)
	if s.refused == nil {
		s.broke(err)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		s.refused, err = late, late
	}
	if n > 0 {
		s.lastReceived.Store(int64(max(time.Since(s.begun), 1)))
	}
	if n > 0 && s.scan.long() {
		s.progress(!s.scan.under())
	}
	return n, err
}

// broke records an error of the connection. The other side has ended the connection unless this side closed it, or gave
// up waiting.
func (s *served) broke(err error) {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return
	}
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
		s.lost.Store(true)
	}
}

// progress records that bytes of a request have arrived, and whether the request is complete.
func (s *served) progress(whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved, s.whole = true, whole
	if !s.busy {
		s.busy = true
		s.timer.Reset(s.interval)
	}
}

// report informs the dialler that bytes of the request move, or that this node works on the request. It does not limit
// the time of the work: when a disk hangs, the watchdog cuts this node off.
func (s *served) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy {
		return
	}
	if s.moved || s.whole {
		s.moved = false
		if err := s.say([]byte{stillHere}); err != nil {
			_ = s.Conn.Close() // the dialler has gone: closing ends the reading of its request
			return
		}
	}
	s.timer.Reset(s.interval)
}

func (s *served) say(b []byte) error {
	err := s.SetWriteDeadline(time.Now().Add(snapshotTimeout))
	if err == nil {
		_, err = s.Conn.Write(b)
	}
	s.broke(err)
	return err
}

// Write ends the reports and writes an answer.
func (s *served) Write(b []byte) (int, error) {
	s.quiet()
	if err := s.SetWriteDeadline(time.Now().Add(snapshotTimeout)); err != nil {
		return 0, err
	}
	n, err := s.scannedConn.Write(b)
	if s.scan.snapshot == 0 {
		s.broke(err)
	}
	return n, err
}

// quiet ends the reports. It waits for a report that is being written.
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
