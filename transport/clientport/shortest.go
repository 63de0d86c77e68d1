package clientport

import (
	"sync/atomic"
	"time"
)

// How long a reader may stand and a client may take nothing: parts of the smallest timeout (G8, G9), and how long a
// reader may stand without a session.
const (
	standPart  = 6
	stuckPart  = 3
	looseStand = 5 * time.Second
)

// shortest is the smallest timeout of a stream's sessions, as far as it is known, 0 without one. A session that has
// left counts until all have left: the stream then ends sooner than it had to, never too late. Safe for concurrent use.
type shortest struct{ timeout atomic.Int64 }

// note notes that the stream has a session with a timeout.
func (s *shortest) note(timeout time.Duration) {
	for {
		now := s.timeout.Load()
		if timeout <= 0 || now != 0 && now <= int64(timeout) || s.timeout.CompareAndSwap(now, int64(timeout)) {
			return
		}
	}
}

// part returns a part of the smallest timeout, or what is allowed without a session.
func (s *shortest) part(n int, loose time.Duration) time.Duration {
	if t := time.Duration(s.timeout.Load()); t > 0 {
		return t / time.Duration(n)
	}
	return loose
}
