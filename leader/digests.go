package leader

import (
	"time"

	"holdfast/session"
)

// comparisonPatience is how many intervals a comparison waits for a node that answers and is behind.
const comparisonPatience = 8

// comparison is that of the digests which the nodes' states have at one index (D1). A node reports with each answer, so
// that one whose digest changes later, at an index where nothing is applied any more, is compared again.
type comparison struct {
	// index is compared since begun; 0: none yet.
	index uint64
	begun time.Duration
	// found is what the newest comparison that came to an end has found (D2).
	found session.Comparison
}

// compare begins to compare another index, one that the leader has applied, once every node that is not lost has
// reported the digest it has at the present one, or there was no patience left for it.
func (r *rounds) compare(applied uint64, now time.Duration) {
	c := &r.comparison
	if applied <= c.index || c.index > 0 && !r.reported(now) {
		return
	}
	c.index, c.begun = applied, now
}

// reported reports whether nobody is waited for at the index that is compared.
func (r *rounds) reported(now time.Duration) bool {
	if now-r.comparison.begun >= comparisonPatience*r.interval {
		return true
	}
	for _, m := range r.members {
		if m.present && m.told.digest.Index != r.comparison.index && !r.lost(m, now) {
			return false
		}
	}
	return true
}

// decide finds out what the reports say (D2): agreed when a quorum of the voters has one digest, undecided when none
// has, and two of them differ, with nobody left to wait for. A quorum that was there and is there no more, because a
// node has another digest now, is taken back: nobody steps out for what it said before.
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

// common returns the digest that most voters have at the index that is compared, whether a quorum has it, and whether
// another one has another.
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

// alike returns how many voters have a digest.
func (r *rounds) alike(d session.StateDigest) int {
	n := 0
	for _, m := range r.members {
		if m.present && m.voter && m.told.digest == d {
			n++
		}
	}
	return n
}
