package leader

import (
	"sync/atomic"
	"time"

	"holdfast/session"
)

const (
	// lostAfter is the number of intervals for which a heartbeat may stay unanswered before its member is lost (E1).
	lostAfter = 3
	// roundsPerTimeout is how many rounds begin within the smallest timeout when all settings are the default ones.
	roundsPerTimeout = 8
)

// pace is the interval between two rounds. It becomes shorter, never longer. Reading it is safe for concurrent use; the
// mutex of [heartbeats] guards its changes.
type pace struct {
	// setting is the interval of the node's settings.
	setting     time.Duration
	nanoseconds atomic.Int64
}

func newPace(interval time.Duration) *pace {
	p := &pace{setting: interval}
	p.nanoseconds.Store(int64(interval))
	return p
}

func (p *pace) interval() time.Duration { return time.Duration(p.nanoseconds.Load()) }

// suits reports whether rounds are frequent enough for sessions with a timeout: more than lostAfter intervals fit in
// it. An owner is lost only after so many intervals (E1), and a promise may rest on a touch as old as that (S3).
func (p *pace) suits(timeout time.Duration) bool { return timeout > lostAfter*p.interval() }

// quicken makes rounds as frequent within the timeout as the default settings make them within the default timeout. It
// returns the interval, and whether that became shorter.
//
// Each configuration allows more than three intervals within the timeouts that it gives. Shorter timeouts are those of
// former leaders with other settings, and of local sessions of nodes with other settings (R1).
func (p *pace) quicken(timeout time.Duration) (interval time.Duration, shorter bool) {
	interval = max(timeout/roundsPerTimeout, session.MinInterval)
	if interval >= p.interval() {
		return p.interval(), false
	}
	p.nanoseconds.Store(int64(interval))
	return interval, true
}
