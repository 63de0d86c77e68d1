package roles

import (
	"sync"
	"sync/atomic"
	"time"

	"holdfast/leader"
)

// ledTerms are the terms that this process has led: the tracker of the present one, and the sums of all. Only the role
// loop may call store; the rest is safe for concurrent use.
type ledTerms struct {
	now atomic.Pointer[leader.Tracker]

	mu sync.Mutex
	// newest is the tracker of the newest term, which may have ended: closes that it proposed are still counted. before
	// has the sums of the trackers before it. guarded by mu
	newest *leader.Tracker
	before leader.Stats
	// runs says that the newest term has not ended. elapsed and credited sum the clocks of those that have. guarded by
	// mu
	runs              bool
	elapsed, credited time.Duration
	// reported is the most that totals has returned of the clocks. guarded by mu
	reported leader.Stats
}

// Load returns the tracker of the term that this node leads, nil while it leads none.
func (r *ledTerms) Load() *leader.Tracker { return r.now.Load() }

// store notes the tracker of a term that begins, nil at its end.
func (r *ledTerms) store(t *leader.Tracker) {
	r.now.Store(t)
	r.mu.Lock()
	former := r.newest
	r.mu.Unlock()
	var sums leader.Stats
	if former != nil {
		sums = former.Stats()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs {
		r.elapsed, r.credited = r.elapsed+sums.Elapsed, r.credited+sums.Credited
	}
	r.runs = t != nil
	if t != nil {
		r.before, r.newest = sum(r.before, sums), t
	}
}

// totals returns what has happened in all terms that this process has led. Only the fields that count are set. The
// clock of a term that has ended counts until its end: a tracker's own clock continues.
func (r *ledTerms) totals() leader.Stats {
	r.mu.Lock()
	all, newest, runs := r.before, r.newest, r.runs
	all.Elapsed, all.Credited = r.elapsed, r.credited
	r.mu.Unlock()
	if newest != nil {
		now := newest.Stats()
		all = sum(all, now)
		if runs {
			all.Elapsed, all.Credited = all.Elapsed+now.Elapsed, all.Credited+now.Credited
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// The term may have ended meanwhile, a little before now was read. A counter must not go back.
	r.reported.Elapsed, r.reported.Credited = max(r.reported.Elapsed, all.Elapsed), max(r.reported.Credited, all.Credited)
	all.Elapsed, all.Credited = r.reported.Elapsed, r.reported.Credited
	return all
}

// sum adds the fields that count, but for the clocks, which it takes from a.
func sum(a, b leader.Stats) leader.Stats {
	return leader.Stats{
		Rounds: a.Rounds + b.Rounds, Elapsed: a.Elapsed, Credited: a.Credited,
		ClockStops: a.ClockStops + b.ClockStops, Expired: a.Expired + b.Expired, Closed: a.Closed + b.Closed,
		Killed:   a.Killed + b.Killed,
		Returned: a.Returned + b.Returned, Unknown: a.Unknown + b.Unknown, Full: a.Full + b.Full,
		Contested: a.Contested + b.Contested,
		Forwarded: a.Forwarded + b.Forwarded, WritesRefused: a.WritesRefused + b.WritesRefused,
		TouchesAccepted: a.TouchesAccepted + b.TouchesAccepted, TouchesRejected: a.TouchesRejected + b.TouchesRejected,
	}
}
