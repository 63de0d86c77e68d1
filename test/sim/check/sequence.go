package check

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// sequence judges the order in which a leader's expiries end.
type sequence struct{ judge }

// expiry is the end of a session, and its leader's last decision about it.
type expiry struct {
	id      session.ID
	decided time.Duration
	at      time.Duration
	index   uint64
}

// check checks E3: of the sessions that a leader ended in one term, a later decision never led to an earlier entry.
// Sessions with decisions at the same moment may share a batch, and have no order.
func (c sequence) check() {
	terms := make(map[uint64][]expiry)
	for _, l := range c.sorted() {
		if _, ok := l.expired(); !ok || l.end.Certificate == nil {
			continue
		}
		term := l.end.Certificate.Term
		if _, last, ok := l.decision(term, l.end.Attachment); ok {
			terms[term] = append(terms[term], expiry{l.id, last.At, l.end.At, l.end.Index})
		}
	}
	for _, all := range terms {
		slices.SortFunc(all, func(a, b expiry) int {
			return cmp.Or(cmp.Compare(a.decided, b.decided), cmp.Compare(a.index, b.index))
		})
		for i := 1; i < len(all); i++ {
			former, e := all[i-1], all[i]
			if e.decided == former.decided {
				continue
			}
			c.checked("E3 sequence")
			if e.index < former.index {
				c.fail("E3", e.id, e.at, "decided at %.4fs, and ended by entry %d, before entry %d, which ended session "+
					"%s, decided at %.4fs", e.decided.Seconds(), e.index, former.index, former.id, former.decided.Seconds())
			}
		}
	}
}
