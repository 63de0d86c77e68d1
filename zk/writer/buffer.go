package writer

import (
	"errors"
	"net"
	"os"
	"time"
)

// buffer holds bytes on their way to the client. Only the writer's goroutine uses it.
type buffer struct {
	// bytes[at:] are unsent.
	bytes []byte
	at    int
	// progress is when the client accepted the newest byte, zero while nothing is being sent. blocked is since when the
	// buffer waits for a confirmed touch, zero if it does not.
	progress, blocked time.Time
	// plain reports whether an interrupted write can continue, which TLS cannot.
	plain bool
}

func (b *buffer) append(p []byte) { b.bytes = append(b.bytes, p...) }

func (b *buffer) empty() bool { return len(b.bytes) == 0 }

// unsent counts the bytes that are not sent.
func (b *buffer) unsent() int64 { return int64(len(b.bytes) - b.at) }

// block notes that no byte may be sent now, and returns since when.
func (b *buffer) block() time.Time {
	if b.blocked.IsZero() {
		b.blocked = time.Now()
	}
	return b.blocked
}

// unblock notes that bytes may be sent again. The client is not blamed for the wait.
func (b *buffer) unblock() {
	if !b.blocked.IsZero() && !b.progress.IsZero() {
		b.progress = b.progress.Add(time.Since(b.blocked))
	}
	b.blocked = time.Time{}
}

// write sends a part. It stops when within has passed, after which no byte may be sent: the rest waits for a
// confirmation, as later bytes do (Z5 disconnected before expired). Without the stop, a write to a slow client would
// send bytes too late. A client that accepts no byte for the duration of timeout ends with an error; a slow client
// does not (G9 answer bounds).
func (b *buffer) write(to net.Conn, within, timeout time.Duration) (n int, err error) {
	now := time.Now()
	if b.progress.IsZero() {
		b.progress = now
	}
	late := b.progress.Add(timeout)
	until := late
	if end := now.Add(within); b.plain && end.Before(late) {
		until = end
	}
	if err = to.SetWriteDeadline(until); err != nil {
		return 0, err
	}
	n, err = to.Write(b.bytes[b.at:min(b.at+sendBytes, len(b.bytes))])
	if b.at += n; n > 0 {
		b.progress = time.Now()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && until.Before(late) {
		err = nil // the next step decides whether the write continues
	}
	return n, err
}

// clear empties the buffer. A connection without requests in flight keeps no memory (Z10 idle connections).
func (b *buffer) clear(busy bool) { //nolint:revive // flag-parameter: a state of the connection
	b.at, b.progress = 0, time.Time{}
	if b.bytes = b.bytes[:0]; cap(b.bytes) > sendBytes || !busy {
		b.bytes = nil
	}
}
