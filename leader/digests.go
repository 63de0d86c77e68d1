package leader

import (
	"time"

	"holdfast/session"
)

// comparisonPatience is the number of intervals for which a comparison waits for a node that answers but lags.
const comparisonPatience = 8

// comparison compares the digests of the nodes' states at one index (C1 digest comparison). Each answer carries a
// digest. So when a digest changes later, at an index where no entry is applied any more, the comparison sees the
// change.
type comparison struct {
	// index is being compared since begun; 0 before the first comparison.
	index uint64
	begun time.Duration
	// found is the result of the newest finished comparison (C2 a quorum decides).
	found session.Comparison
}

// compare begins a comparison at applied, the newest index that the leader has applied. It does nothing while the
// present comparison waits for the digest of a node that is not lost, for a bounded time.
func (r *rounds) compare(applied uint64, now time.Duration) {
	c := &r.comparison
	if applied <= c.index || c.index > 0 && !r.reported(now) {
		return
	}
	c.index, c.begun = applied, now
}

// reported reports whether the comparison no longer waits for a node's digest.
func (r *rounds) reported(now time.Duration) bool {
	if now-r.comparison.begun >= comparisonPatience*r.pace.interval() {
		return true
	}
	for _, m := range r.members {
		if m.present && m.report.digest.Index != r.comparison.index && !r.lost(m, now) {
			return false
		}
	}
	return true
}

// decide computes the result from the reports (C2). The nodes agree if a quorum of the voters has one digest. They are
// undecided if there is no such quorum, two voters differ, and the comparison waits for no node. If a quorum is lost
// because a node now reports another digest, decide revokes the result: no node steps out for an obsolete result.
func (r *rounds) decide(now time.Duration) {
	c := &r.comparison
	if c.index == 0 {
		return
	}
	common, agreed, differ := r.common()
	switch {
	case agreed:
		c.found = session.Comparison{StateDigest: common, Agreed: true}
	case differ && r.reported(now):
		c.found = session.Comparison{StateDigest: session.StateDigest{Index: c.index}}
	case c.found.Index == c.index:
		c.found = session.Comparison{}
	}
}

// common returns the digest of most voters at the compared index, whether a quorum has it, and whether two voters
// differ.
func (r *rounds) common() (common session.StateDigest, agreed, differ bool) {
	voters, largest := 0, 0
	for _, m := range r.members {
		if !m.present || !m.voter {
			continue
		}
		voters++
		if m.report.digest.Index != r.comparison.index {
			continue
		}
		differ = differ || largest > 0 && m.report.digest != common
		if same := r.alike(m.report.digest); same > largest {
			largest, common = same, m.report.digest
		}
	}
	return common, largest > voters/2, differ
}

// alike returns how many voters have the digest d.
func (r *rounds) alike(d session.StateDigest) int {
	n := 0
	for _, m := range r.members {
		if m.present && m.voter && m.report.digest == d {
			n++
		}
	}
	return n
}
