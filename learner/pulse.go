package learner

import (
	"sync"
	"sync/atomic"
	"time"
)

// instant is one moment on both clocks.
type instant struct {
	// mono is monotonic time since the table's base.
	mono time.Duration
	// wall is wall-clock time without a monotonic reading.
	wall time.Time
}

// pulse notices when this process did not run: for longer than limit a stall, and when wall time ran ahead of monotonic
// time a suspended machine. The node vouches for what its clients said only since the end of the last such gap (E1, S5).
// Safe for concurrent use.
type pulse struct {
	limit time.Duration
	// suspended is called, with mu held, when the machine is found to have been suspended: nobody who looks gets past
	// before it has returned.
	suspended func()

	mu sync.Mutex
	// last is when the pulse was last looked at. guarded by mu
	last instant
	// since is when the process began, or its last gap ended, and looked is last.mono: both are written with mu held, and read by those
	// who take no lock.
	since, looked atomic.Int64
	// suspension is when the machine was last found to have been suspended; negative: never. guarded by mu
	suspension time.Duration
	// stalls counts the gaps. guarded by mu
	stalls uint64
}

// aheadLimit is how far wall time may run ahead of monotonic time between two looks: more is a suspended machine (S5).
const aheadLimit = time.Second

func newPulse(limit time.Duration, now instant, suspended func()) *pulse {
	p := &pulse{limit: limit, suspended: suspended, last: now, suspension: -1}
	p.since.Store(int64(now.mono))
	p.looked.Store(int64(now.mono))
	return p
}

// look notes that the process runs at now, and finds out whether it, or the machine, did not since the last look. It
// reports that the machine did not.
func (p *pulse) look(now instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ran := now.mono - p.last.mono
	if ran < 0 {
		return false // another goroutine has looked at a later moment
	}
	suspended := now.wall.Sub(p.last.wall)-ran > aheadLimit
	if suspended {
		p.suspension = now.mono
		p.suspended()
	}
	if suspended || ran > p.limit {
		p.since.Store(int64(now.mono))
		p.stalls++
	}
	p.last = now
	p.looked.Store(int64(now.mono))
	return suspended
}

// vouches returns for how long the process has run without a gap.
func (p *pulse) vouches(now time.Duration) time.Duration {
	return max(now-p.vouched(), 0)
}

// vouched returns since when the process has run without a gap, as far as was noticed. It takes no lock.
func (p *pulse) vouched() time.Duration { return time.Duration(p.since.Load()) }

// runs returns since when the process has run without a gap: now, when one ends that nobody has noticed yet. It takes no lock.
func (p *pulse) runs(now time.Duration) time.Duration {
	if looked := time.Duration(p.looked.Load()); now-looked > p.limit {
		return now
	}
	return p.vouched()
}

// suspendedSince reports whether the machine was found suspended at or after a moment: what the monotonic clock says of
// the time since then is not to be trusted.
func (p *pulse) suspendedSince(moment time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspension >= moment
}

func (p *pulse) stalled() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalls
}
