package learner

import "time"

const (
	// staleAfter is how old the leader's commit may be that a node has not applied while it answers reads (G6 of the
	// tree).
	staleAfter = 10 * time.Second
	// toldTogether is for how long commits that leaders tell count as told at the end of that time: so a node keeps a
	// dozen of them however often heartbeats come, and notices by this much too late that it is behind.
	toldTogether = time.Second
)

// freshness says whether a node has applied what the leader had committed a while ago (G6 of the tree). Its moments are
// of one clock, and never go back. Not safe for concurrent use.
type freshness struct {
	// due is what had been committed when the newest forgotten one of recent was told.
	due uint64
	// recent has what was told in the last 10 s, oldest first. At most 12.
	recent []commitTold
}

// commitTold is the highest index that leaders have told as committed in a time.
type commitTold struct {
	committed uint64
	from, to  time.Duration
}

// heard takes in the index that a leader has told as committed.
func (f *freshness) heard(committed uint64, now time.Duration) {
	f.forget(now)
	if n := len(f.recent); n > 0 {
		last := &f.recent[n-1]
		committed = max(committed, last.committed) // a new leader may know less, but what was committed stays so
		if now-last.from < toldTogether {
			last.committed, last.to = committed, now
			return
		}
	}
	f.recent = append(f.recent, commitTold{committed: max(committed, f.due), from: now, to: now})
}

// forget drops what was told 10 s ago or earlier, but for the highest index.
func (f *freshness) forget(now time.Duration) {
	old := 0
	for old < len(f.recent) && f.recent[old].counts(now) {
		f.due = f.recent[old].committed
		old++
	}
	f.recent = append(f.recent[:0], f.recent[old:]...)
}

// stale reports whether a node that has applied up to an index has not applied what the leader had committed 10 s ago.
// It notices up to a second late. A node that has heard of nothing is not stale: its mode says what it may answer (N1).
func (f *freshness) stale(applied uint64, now time.Duration) bool {
	due := f.due
	for _, told := range f.recent {
		if !told.counts(now) {
			break
		}
		due = told.committed
	}
	return applied < due
}

// counts reports whether a node must have applied by now what it was told.
func (t commitTold) counts(now time.Duration) bool { return now-t.to >= staleAfter }
