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

// stallDetector notices when this process did not run: for longer than an interval a stall, and when wall time ran
// ahead of monotonic time a suspended machine. The node vouches for what its clients said only since the end of the
// last such gap (E1, S5), and the gaps are credited to its sessions. Safe for concurrent use.
type stallDetector struct {
	// limit is an interval, as [stallDetector.follow] left it.
	limit atomic.Int64
	// own is the interval of this node's configuration, began when the process did.
	own, began time.Duration
	// suspended is called, with mu held, when the machine is found to have been suspended: nobody who looks gets past
	// before it has returned.
	suspended func()

	mu sync.Mutex
	// last is of the last look, on the monotonic clock. guarded by mu
	last time.Duration
	// base is when wall time was last put in relation to monotonic time: at the begin, after a suspension that was
	// noticed, and whenever the wall clock was set back. Wall time is compared with this one relation, not from look to
	// look, so that short suspensions add up. guarded by mu
	base instant
	// since is when the process began, or its last gap ended, and looked is last: both are written with mu held, and
	// read by those who take no lock.
	since, looked atomic.Int64
	// suspension is when the machine was last found to have been suspended; negative: never. guarded by mu
	suspension time.Duration
	// gaps counts the gaps. guarded by mu
	gaps uint64
	// stalls are the gaps. covered is the end of the newest credit: overlapping credits count once. guarded by mu
	stalls  *session.Stalls
	covered time.Duration
}

// aheadLimit is how far wall time may run ahead of monotonic time, all suspensions since the last one that was noticed
// taken together: more is a suspended machine (S5).
const aheadLimit = time.Second

func newStallDetector(own time.Duration, now instant, suspended func()) *stallDetector {
	p := &stallDetector{own: own, began: now.mono, suspended: suspended, last: now.mono, base: now, suspension: -1}
	p.limit.Store(int64(own))
	p.since.Store(int64(now.mono))
	p.looked.Store(int64(now.mono))
	return p
}

// follow has the detector notice stalls that a leader's sessions, and this node's local ones, have to be credited with:
// those longer than the shorter of the leader's interval and this node's own (E1, L3). It reports whether that is news.
func (p *stallDetector) follow(interval time.Duration) bool {
	limit := int64(min(interval, p.own))
	return p.limit.Swap(limit) != limit
}

// interval is what looks must come much more often than.
func (p *stallDetector) interval() time.Duration { return time.Duration(p.limit.Load()) }

// look notes that the process runs at now, and finds out whether it, or the machine, did not since the last look. It
// reports that the machine did not.
func (p *stallDetector) look(now instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ran := now.mono - p.last
	if ran < 0 {
		return false // another goroutine has looked at a later moment
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
	p.looked.Store(int64(now.mono))
	return suspended
}

// credit credits the gap from the last look to now and the grace after it; after a suspension also the time that the
// monotonic clock did not show, up to the largest timeout: more is of use to no session. Called with mu held.
func (p *stallDetector) credit(now, ahead time.Duration) {
	grace := session.GraceIntervals * p.interval()
	credit := now + grace - max(p.last, p.covered)
	if ahead > aheadLimit {
		credit += min(ahead, session.MaxTimeout)
	}
	p.covered = now + grace
	p.stalls = p.stalls.With(now, credit, grace)
}

// vouches returns, as of now, how long ago the last gap ended, how long ago the process began, and the sum of all
// credits. A gap that ended later has an age of 0.
func (p *stallDetector) vouches(now time.Duration) (age, process, credit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(now-p.vouched(), 0), max(now-p.began, 0), p.stalls.Total()
}

// stalled returns the gaps so far.
func (p *stallDetector) stalled() *session.Stalls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalls
}

// vouched returns since when the process has run without a gap, as far as was noticed. It takes no lock.
func (p *stallDetector) vouched() time.Duration { return time.Duration(p.since.Load()) }

// runs returns since when the process has run without a gap: now, when one ends that nobody has noticed yet. It takes
// no lock.
func (p *stallDetector) runs(now time.Duration) time.Duration {
	if looked := time.Duration(p.looked.Load()); now-looked > p.interval() {
		return now
	}
	return p.vouched()
}

// suspendedSince reports whether the machine was found suspended at or after a moment: what the monotonic clock says of
// the time since then is not to be trusted.
func (p *stallDetector) suspendedSince(moment time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspension >= moment
}

// count returns how many gaps there were.
func (p *stallDetector) count() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gaps
}
