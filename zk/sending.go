package zk

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// sending is what is on its way to the client. The writer alone uses it.
type sending struct {
	// bytes wait to be sent, but for the first at of them, which were.
	bytes []byte
	at    int
	// taken is when the client took the newest of them, zero while nothing is being sent. blocked is since when they wait
	// for a confirmed touch, zero if they do not.
	taken, blocked time.Time
	// plain says that a write that was broken off can go on: with TLS it cannot. Set by the handshake.
	plain bool
}

// none reports whether nothing is to be sent.
func (s *sending) none() bool { return len(s.bytes) == 0 }

// waits returns how many bytes are unsent.
func (s *sending) waits() int64 { return int64(len(s.bytes) - s.at) }

// block notes that a byte must not be sent now, and returns since when.
func (s *sending) block() time.Time {
	if s.blocked.IsZero() {
		s.blocked = time.Now()
	}
	return s.blocked
}

// unblock notes that a byte may be sent again. The client is not to blame for the wait.
func (s *sending) unblock() {
	if !s.blocked.IsZero() && !s.taken.IsZero() {
		s.taken = s.taken.Add(time.Since(s.blocked))
	}
	s.blocked = time.Time{}
}

// write sends a part. It breaks off after the time within which a byte may be sent, and what is left waits for a
// confirmation, as later bytes do (Z5). Without: a write that waits for a slow client hands over bytes too late. A
// client that takes nothing for as long as patience is given up, with an error; one that is slow is not (G9).
func (s *sending) write(to net.Conn, within, patience time.Duration) (n int, err error) {
	now := time.Now()
	if s.taken.IsZero() {
		s.taken = now
	}
	late := s.taken.Add(patience)
	until := late
	if end := now.Add(within); s.plain && end.Before(late) {
		until = end
	}
	if err = to.SetWriteDeadline(until); err != nil {
		return 0, err
	}
	n, err = to.Write(s.bytes[s.at:min(s.at+sendBytes, len(s.bytes))])
	if s.at += n; n > 0 {
		s.taken = time.Now()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && until.Before(late) {
		err = nil // the next step looks whether it goes on
	}
	return n, err
}

// clear notes that all is sent, and keeps the buffer if it is of use.
func (s *sending) clear(busy bool) { //nolint:revive // flag-parameter: it is a state of the connection
	s.at, s.taken = 0, time.Time{}
	if s.bytes = s.bytes[:0]; cap(s.bytes) > sendBytes || !busy {
		s.bytes = nil // an idle connection keeps no buffer (Z10)
	}
}

// fate is what becomes of a connection's session.
type fate struct {
	// closing says that the client closes its session: the answer to that ends the connection, not the session's end.
	closing atomic.Bool
	// gone says that this close has ended the session: it cannot expire any more, so nothing waits for a touch (Z5). No
	// touch of it would ever be confirmed.
	gone atomic.Bool
	// left says that the session has ended or has moved: no touch of this connection will be confirmed, so nothing waits
	// for one, and what may not be sent now is dropped.
	left atomic.Bool
}
