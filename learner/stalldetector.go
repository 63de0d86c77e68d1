package learner

import (
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// instant is one moment on both clocks.
type instant struct {
	// mono is monotonic time since the table's base.
	mono time.Duration
	// wall is wall-clock time without a monotonic reading.
	wall time.Time
}

// stallDetector detects gaps: times in which this process did not run. A gap is a stall when more than an interval
// passes between two observations, or a suspension of the machine when wall time runs ahead of monotonic time. The node
// has certainly received its clients' touches only since the end of the newest gap (E1 full timeout after a change of
// leader, S5 suspended machines), and its sessions get credit for the gaps. Safe for concurrent use.
type stallDetector struct {
	// limit is the longest time between two observations without a stall, see [stallDetector.follow].
	limit atomic.Int64
	// own is the interval of this node's configuration, began the moment when the process began.
	own, began time.Duration
	// suspended is called, with mu held, after a suspension of the machine was detected. No other observation returns
	// before suspended has returned.
	suspended func()

	mu sync.Mutex
	// last is the moment of the newest observation. guarded by mu
	last time.Duration
	// base is the instant from which wall time and monotonic time are compared. It is set at the beginning, after each
	// detected suspension, and whenever the wall clock was set back. A comparison of consecutive observations would
	// miss short suspensions that add up. guarded by mu
	base instant
	// since is the moment at which the process began or its newest gap ended; observed equals last. Both are written
	// with mu held, and read without it.
	since, observed atomic.Int64
	// suspension is the moment at which the newest suspension was detected; negative for none. guarded by mu
	suspension time.Duration
	// gaps counts the gaps. guarded by mu
	gaps uint64
	// stalls are the gaps with their credits. covered is the end of the newest credit, because overlapping credits
	// count once. guarded by mu
	stalls  *session.Stalls
	covered time.Duration
}

// aheadLimit is how far wall time may run ahead of monotonic time since base without counting as a suspension (S5).
const aheadLimit = time.Second

func newStallDetector(own time.Duration, now instant, suspended func()) *stallDetector {
	p := &stallDetector{own: own, began: now.mono, suspended: suspended, last: now.mono, base: now, suspension: -1}
	p.limit.Store(int64(own))
	p.since.Store(int64(now.mono))
	p.observed.Store(int64(now.mono))
	return p
}

// follow sets the limit to the shorter of a leader's interval and this node's own, and reports whether the limit
// changed. The leader's sessions need credit for stalls longer than the leader's interval (E1), local sessions for
// stalls longer than the node's own (L3 local expiry).
func (p *stallDetector) follow(interval time.Duration) bool {
	limit := int64(min(interval, p.own))
	return p.limit.Swap(limit) != limit
}

// interval returns the limit. Observations must be much more frequent.
func (p *stallDetector) interval() time.Duration { return time.Duration(p.limit.Load()) }

// observe records that the process runs at now, and detects a gap since the newest observation. It reports whether the
// machine was suspended.
func (p *stallDetector) observe(now instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ran := now.mono - p.last
	if ran < 0 {
		return false // another goroutine has observed a later moment
	}
	ahead := now.wall.Sub(p.base.wall) - (now.mono - p.base.mono)
	suspended := ahead > aheadLimit
	if suspended {
		p.suspension = now.mono
		p.suspended()
	}
	if suspended || ahead < 0 {
		p.base = now
	}
	if suspended || ran > p.interval() {
		p.since.Store(int64(now.mono))
		p.gaps++
		p.credit(now.mono, ahead)
	}
	p.last = now.mono
	p.observed.Store(int64(now.mono))
	return suspended
}

// credit credits sessions with the gap from the newest observation to now, and with the grace after the gap. After a
// suspension credit adds the time that the monotonic clock did not show, up to the largest timeout: no session can use
// more. Called with mu held.
func (p *stallDetector) credit(now, ahead time.Duration) {
	grace := session.GraceIntervals * p.interval()
	credit := now + grace - max(p.last, p.covered)
	if ahead > aheadLimit {
		credit += min(ahead, session.MaxTimeout)
	}
	p.covered = now + grace
	p.stalls = p.stalls.With(now, credit, grace)
}

// ages returns, as of now, the age of the end of the newest gap, the age of the process, and the sum of all credits.
// The age is 0 for a gap that ended after now.
func (p *stallDetector) ages(now time.Duration) (age, process, credit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(now-p.runningSince(), 0), max(now-p.began, 0), p.stalls.Total()
}

// stalled returns the gaps so far with their credits.
func (p *stallDetector) stalled() *session.Stalls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalls
}

// runningSince returns the moment since which the process has run without a detected gap. It takes no lock.
func (p *stallDetector) runningSince() time.Duration { return time.Duration(p.since.Load()) }

// runs returns the moment since which the process has run without a gap. It is now during a gap that no observation has
// detected yet. It takes no lock.
func (p *stallDetector) runs(now time.Duration) time.Duration {
	if observed := time.Duration(p.observed.Load()); now-observed > p.interval() {
		return now
	}
	return p.runningSince()
}

// suspendedSince reports whether a suspension was detected at or after a moment. The monotonic clock then does not show
// all the time since that moment.
func (p *stallDetector) suspendedSince(moment time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspension >= moment
}

// count returns the number of gaps.
func (p *stallDetector) count() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gaps
}
