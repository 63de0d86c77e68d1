package learner

import (
	"sync"
	"time"
)

// pulse notices when this process did not run: for longer than limit a stall, and when wall time ran ahead of monotonic
// time a suspended machine. The node vouches for what its clients said only since the end of the last such gap (E1, S5).
// Safe for concurrent use.
type pulse struct {
	limit time.Duration

	mu sync.Mutex
	// last is when the pulse was last looked at, with both clocks. guarded by mu
	last time.Time
	// since is when the process began, or its last stall ended. guarded by mu
	since time.Time
	// suspension is when the machine was last found to have been suspended; zero: never. guarded by mu
	suspension time.Time
	// stalls counts. guarded by mu
	stalls uint64
}

// aheadLimit is how far wall time may run ahead of monotonic time between two looks: more is a suspended machine (S5).
const aheadLimit = time.Second

func newPulse(limit time.Duration, now time.Time) *pulse {
	return &pulse{limit: limit, last: now, since: now}
}

// look notes that the process runs at now and reports whether the machine was suspended since the last look, after which
// no promise counts.
func (p *pulse) look(now time.Time) (suspended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ran := now.Sub(p.last)
	if ran < 0 {
		return false // another goroutine looked a moment later than this one
	}
	suspended = now.Round(0).Sub(p.last.Round(0))-ran > aheadLimit
	if suspended || ran > p.limit {
		p.since = now
		p.stalls++
	}
	if suspended {
		p.suspension = now
	}
	p.last = now
	return suspended
}

// vouches returns how long the process has run without a stall.
func (p *pulse) vouches(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(now.Sub(p.since), 0)
}

// suspendedSince reports whether the machine was found suspended after a moment: what the monotonic clock says of the
// time since then is not to be trusted (S5).
func (p *pulse) suspendedSince(moment time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspension.After(moment)
}

func (p *pulse) stalled() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalls
}
