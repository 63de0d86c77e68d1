package learner

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// listed is s as it is shown at now. Called with mu held.
func (s *local) listed(now, vouched time.Duration) session.Listed {
	due := max(s.item.Deadline(), vouched+s.facts.Timeout)
	return session.Listed{Session: s.facts, Remaining: max(due-now, 0)}
}

// find shows a session, false when it is not here.
func (l *Local) find(id session.ID, now, vouched time.Duration) (session.Listed, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.serving[id]
	if s == nil {
		return session.Listed{}, false
	}
	return s.listed(now, vouched), true
}

// list returns one page of the sessions that match a filter.
func (l *Local) list(q session.Query, now, vouched time.Duration) session.Page {
	l.mu.Lock()
	defer l.mu.Unlock()
	var page session.Page
	if q.Filter.Scope == session.ScopeGlobal {
		return page
	}
	i, found := slices.BinarySearch(l.order, q.After)
	if found {
		i++
	}
	var last session.ID
	for scanned := 0; i < len(l.order); i++ {
		s := l.serving[l.order[i]]
		if s == nil {
			continue
		}
		if len(page.Sessions) == q.Size || scanned == maxScan {
			page.Next = last
			return page
		}
		scanned++
		last = s.facts.ID
		listed := s.listed(now, vouched)
		if q.Filter.Match(&s.facts) && q.Filter.MatchRemaining(listed.Remaining) {
			page.Sessions = append(page.Sessions, listed)
		}
	}
	return page
}

// merge makes one page of two, each of which is complete up to its Next. A session that is in both became global after the
// local page was made: the global one counts.
func merge(global, local session.Page, size int) session.Page {
	next := global.Next
	if next == 0 || local.Next != 0 && local.Next < next {
		next = local.Next
	}
	all := slices.Concat(global.Sessions, local.Sessions)
	slices.SortStableFunc(all, func(x, y session.Listed) int { return cmp.Compare(x.Session.ID, y.Session.ID) })
	all = slices.CompactFunc(all, func(x, y session.Listed) bool { return x.Session.ID == y.Session.ID })
	if next != 0 {
		i, _ := slices.BinarySearchFunc(all, next+1, func(x session.Listed, id session.ID) int { return cmp.Compare(x.Session.ID, id) })
		all = all[:i]
	}
	if len(all) > size {
		all = all[:size]
		next = all[size-1].Session.ID
	}
	return session.Page{Sessions: all, Next: next, Applied: global.Applied}
}

// count returns how many sessions are here, how many have expired, and how many became global.
func (l *Local) count() (sessions int, expired, upgraded uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.serving), l.expired, l.upgraded
}
