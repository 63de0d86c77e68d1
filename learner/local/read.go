package local

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// MaxScan bounds the sessions that one page of a list examines.
const MaxScan = 100_000

// maxLocked bounds the sessions that a list examines under one hold of the lock, for which touches, opens and expiries
// wait.
const maxLocked = 256

// listed returns s for a read at now. Called with mu held.
func (t *Table) listed(s *Session, now time.Duration, stalls *session.Stalls) session.Listed {
	return session.Listed{Session: s.facts, Remaining: t.remaining(s, now, stalls)}
}

// remaining returns the time that s has left if it stays silent. Called with mu held.
func (t *Table) remaining(s *Session, now time.Duration, stalls *session.Stalls) time.Duration {
	return max(t.due(s.item, now, stalls)-now, 0) + t.freezes.Left(now)
}

// Find returns a session for a read at now; false when the session is not here.
func (t *Table) Find(id session.ID, now time.Duration, stalls *session.Stalls) (session.Listed, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.serving[id]
	if s == nil {
		return session.Listed{}, false
	}
	return t.listed(s, now, stalls), true
}

// Explain returns what keeps a session alive; false when the session is not here.
func (t *Table) Explain(id session.ID, now time.Duration,
	stalls *session.Stalls,
) (session.Session, session.Vigil, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.serving[id]
	if s == nil {
		return session.Session{}, session.Vigil{}, false
	}
	return s.facts, session.Vigil{
		Remaining: t.remaining(s, now, stalls), LastTouchAge: max(now-s.last, 0), VouchedAge: -1,
		Credit: dueWithStalls(s.item, stalls) - s.item.Deadline(), Frozen: t.freezes.Left(now),
	}, true
}

// List returns one page of the sessions that match a filter, in the order of ids. The page is no consistent snapshot:
// it contains each session that lives all the while exactly once, and may contain sessions that opened or ended
// meanwhile.
func (t *Table) List(q session.Query, now time.Duration, stalls *session.Stalls) session.Page {
	if q.Soonest {
		return t.soonest(q, now, stalls)
	}
	l := listing{query: q, now: now, stalls: stalls, upTo: q.After}
	if q.Filter.Scope != session.ScopeGlobal {
		for t.listOn(&l) {
		}
	}
	return l.page
}

// listing is a list in progress.
type listing struct {
	query  session.Query
	now    time.Duration
	stalls *session.Stalls
	// upTo is the last examined id, whose session may have ended since. The list continues after upTo.
	upTo session.ID
	// scanned is the number of examined sessions.
	scanned int
	page    session.Page
}

// listOn continues a list for up to maxLocked ids, and reports whether more remain.
func (t *Table) listOn(l *listing) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, found := slices.BinarySearch(t.order, l.upTo)
	if found {
		i++
	}
	end := min(i+maxLocked, len(t.order))
	for ; i < end; i++ {
		if s := t.serving[t.order[i]]; s != nil {
			if len(l.page.Sessions) == l.query.Size || l.scanned == MaxScan {
				l.page.Next = l.upTo
				return false
			}
			l.add(s, t.listed(s, l.now, l.stalls))
		}
		l.upTo = t.order[i]
	}
	return end < len(t.order)
}

// add adds a session to the page if it matches the filter. Called with Table.mu held.
func (l *listing) add(s *Session, listed session.Listed) {
	l.scanned++
	if l.query.Filter.Match(&s.facts) && l.query.Filter.MatchRemaining(listed.Remaining) {
		l.page.Sessions = append(l.page.Sessions, listed)
	}
}

// soonest is List for a query of the sessions that expire soonest. It examines all sessions, page by page.
func (t *Table) soonest(q session.Query, now time.Duration, stalls *session.Stalls) session.Page {
	first := session.Page{}
	size := q.Size
	q.Soonest, q.Size = false, session.MaxPage
	for more := true; more; more = q.After != 0 {
		page := t.List(q, now, stalls)
		first.Sessions = Earliest(append(first.Sessions, page.Sessions...), size)
		q.After = page.Next
	}
	return first
}

// Earliest returns the size sessions with the least time left, the soonest to expire first.
func Earliest(all []session.Listed, size int) []session.Listed {
	slices.SortFunc(all, func(x, y session.Listed) int {
		return cmp.Or(cmp.Compare(x.Remaining, y.Remaining), cmp.Compare(x.Session.ID, y.Session.ID))
	})
	return all[:min(len(all), size)]
}

// Counts are figures of a table.
type Counts struct {
	// Sessions is the number of present sessions. Expired and Upgraded count the sessions that expired and that became
	// global.
	Sessions          int
	Expired, Upgraded uint64
}

// Counts returns the present figures.
func (t *Table) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Counts{len(t.serving), t.expired, t.upgraded}
}
