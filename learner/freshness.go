package learner

import "time"

const (
	// staleAfter is the age of the leader's commit index at which a node that answers reads must have applied it (G6
	// stale nodes refuse).
	staleAfter = 10 * time.Second
	// mergeWindow is the time for which reported commit indexes are merged, and count as reported at its end: so a
	// node keeps a dozen of them however often heartbeats arrive, and notices this much too late that it is behind.
	mergeWindow = time.Second
)

// freshness says whether a node has applied what the leader had committed a while ago (G6 stale nodes refuse). Its
// moments are of one clock, and never go back. Not safe for concurrent use.
type freshness struct {
	// due is the commit index of the newest report that was dropped from recent.
	due uint64
	// recent has the reports of the last 10 s, oldest first. At most 12.
	recent []commitReport
}

// commitReport is the highest commit index that leaders have reported in a time.
type commitReport struct {
	committed uint64
	from, to  time.Duration
}

// record records a commit index that a leader has reported.
func (f *freshness) record(committed uint64, now time.Duration) {
	f.forget(now)
	if n := len(f.recent); n > 0 {
		last := &f.recent[n-1]
		committed = max(committed, last.committed) // a new leader may know less, but committed entries stay committed
		if now-last.from < mergeWindow {
			last.committed, last.to = committed, now
			return
		}
	}
	f.recent = append(f.recent, commitReport{committed: max(committed, f.due), from: now, to: now})
}

// forget drops the reports that are 10 s old or older, but keeps their highest index.
func (f *freshness) forget(now time.Duration) {
	old := 0
	for old < len(f.recent) && f.recent[old].counts(now) {
		f.due = f.recent[old].committed
		old++
	}
	f.recent = append(f.recent[:0], f.recent[old:]...)
}

// stale reports whether a node that has applied up to an index is behind the leader's commit index of 10 s ago. It
// notices up to a second late. A node without any report is not stale: its mode decides what it may answer (N1 node
// mode).
func (f *freshness) stale(applied uint64, now time.Duration) bool {
	due := f.due
	for _, report := range f.recent {
		if !report.counts(now) {
			break
		}
		due = report.committed
	}
	return applied < due
}

// counts reports whether a node must have applied the reported index by now.
func (t commitReport) counts(now time.Duration) bool { return now-t.to >= staleAfter }
