package leader

import (
	"sync/atomic"
	"time"

	"holdfast/session"
)

const (
	// lostAfter is the number of intervals after which the member of an unanswered heartbeat is lost (E1 full timeout
	// after a change of leader).
	lostAfter = 3
	// roundsPerTimeout is the number of rounds that begin within the smallest timeout with default settings.
	roundsPerTimeout = 8
)

// pace is the interval between two rounds. It only becomes shorter. Reading it is safe for concurrent use; the mutex of
// [heartbeats] guards its changes.
type pace struct {
	// setting is the interval in the node's settings.
	setting     time.Duration
	nanoseconds atomic.Int64
}

func newPace(interval time.Duration) *pace {
	p := &pace{setting: interval}
	p.nanoseconds.Store(int64(interval))
	return p
}

func (p *pace) interval() time.Duration { return time.Duration(p.nanoseconds.Load()) }

// suits reports whether rounds are frequent enough for sessions with the timeout: more than lostAfter intervals must
// fit in. An owner is lost only after lostAfter intervals (E1), and a promise may depend on a touch as old as that (S3
// length of a promise).
func (p *pace) suits(timeout time.Duration) bool { return timeout > lostAfter*p.interval() }

// quicken makes rounds within the timeout as frequent as default settings make them within the default timeout. It
// returns the interval, and whether the interval became shorter.
//
// Each configuration permits only timeouts of more than three intervals. Shorter timeouts come from former leaders with
// other settings, and from local sessions of nodes with other settings (R1 rounds).
func (p *pace) quicken(timeout time.Duration) (interval time.Duration, shorter bool) {
	interval = max(timeout/roundsPerTimeout, session.MinInterval)
	if interval >= p.interval() {
		return p.interval(), false
	}
	p.nanoseconds.Store(int64(interval))
	return interval, true
}
