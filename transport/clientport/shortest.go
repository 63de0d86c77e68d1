package clientport

import (
	"sync/atomic"
	"time"
)

// The longest times for which a reader may stop and a client may read nothing, as parts of the smallest timeout (G8
// request bounds, G9 answer bounds), and for which a reader may stop without a session.
const (
	readerStopPart      = 6
	stuckPart           = 3
	readerStopNoSession = 5 * time.Second
)

// shortest is the smallest known timeout of a stream's sessions; 0 without sessions. A session that has left counts
// until all have left, so the stream may end sooner than necessary, never too late. Safe for concurrent use.
type shortest struct{ timeout atomic.Int64 }

// note records the timeout of one of the stream's sessions.
func (s *shortest) note(timeout time.Duration) {
	for {
		now := s.timeout.Load()
		if timeout <= 0 || now != 0 && now <= int64(timeout) || s.timeout.CompareAndSwap(now, int64(timeout)) {
			return
		}
	}
}

// part returns a part of the smallest timeout, or loose without sessions.
func (s *shortest) part(n int, loose time.Duration) time.Duration {
	if t := time.Duration(s.timeout.Load()); t > 0 {
		return t / time.Duration(n)
	}
	return loose
}
