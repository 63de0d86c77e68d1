package leader

import (
	"time"

	"holdfast/session"
)

// comparisonPatience is how many intervals a comparison waits for a node that answers and lags.
const comparisonPatience = 8

// comparison compares the digests of the nodes' states at one index (D1). A node reports its digest with each answer,
// so a digest that changes later, at an index where nothing is applied any more, is compared again.
type comparison struct {
	// index is compared since begun; 0 before the first comparison.
	index uint64
	begun time.Duration
	// found is the result of the newest comparison that has ended (D2).
	found session.Comparison
}

// compare begins to compare at applied, the newest index that the leader has applied. Before that, every node that is
// not lost has reported its digest at the present index, or the comparison has waited long enough.
func (r *rounds) compare(applied uint64, now time.Duration) {
	c := &r.comparison
	if applied <= c.index || c.index > 0 && !r.reported(now) {
		return
	}
	c.index, c.begun = applied, now
}

// reported reports whether the comparison waits for no node's digest any more.
func (r *rounds) reported(now time.Duration) bool {
	if now-r.comparison.begun >= comparisonPatience*r.pace.interval() {
		return true
	}
	for _, m := range r.members {
		if m.present && m.told.digest.Index != r.comparison.index && !r.lost(m, now) {
			return false
		}
	}
	return true
}

// decide finds the result of the reports (D2). The nodes agree if a quorum of the voters has one digest. They are
// undecided if no quorum has, two voters differ, and no node is waited for. If a quorum is lost because a node now
// reports another digest, decide takes the result back: no node steps out for a result that does not hold.
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

// common returns the digest that most voters have at the compared index, whether a quorum has it, and whether two
// voters differ.
func (r *rounds) common() (common session.StateDigest, agreed, differ bool) {
	voters, most := 0, 0
	for _, m := range r.members {
		if !m.present || !m.voter {
			continue
		}
		voters++
		if m.told.digest.Index != r.comparison.index {
			continue
		}
		differ = differ || most > 0 && m.told.digest != common
		if same := r.alike(m.told.digest); same > most {
			most, common = same, m.told.digest
		}
	}
	return common, most > voters/2, differ
}

// alike returns how many voters have the digest d.
func (r *rounds) alike(d session.StateDigest) int {
	n := 0
	for _, m := range r.members {
		if m.present && m.voter && m.told.digest == d {
			n++
		}
	}
	return n
}
