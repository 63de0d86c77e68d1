package learner

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
)

// listed returns what a read at now shows of s. Called with mu held.
func (l *Local) listed(s *local, now time.Duration, stalls *session.Stalls) session.Listed {
	return session.Listed{Session: s.facts, Remaining: l.remaining(s, now, stalls)}
}

// remaining returns for how long s lives if it stays silent. Called with mu held.
func (l *Local) remaining(s *local, now time.Duration, stalls *session.Stalls) time.Duration {
	return max(l.due(s.item, now, stalls)-now, 0) + l.frost.Left(now)
}

// find returns what a read at now shows of a session, false when the session is not here.
func (l *Local) find(id session.ID, now time.Duration, stalls *session.Stalls) (session.Listed, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.serving[id]
	if s == nil {
		return session.Listed{}, false
	}
	return l.listed(s, now, stalls), true
}

// maxHeld is how many sessions a list looks at under one hold of the lock, on which touches, opens and expiries wait. A
// whole list looks at up to maxScan.
const maxHeld = 256

// list returns one page of the sessions that match a filter, in the order of ids. The page shows no single moment. It
// has a session that lives all the while exactly once. It may have a session that opened or ended meanwhile.
func (l *Local) list(q session.Query, now time.Duration, stalls *session.Stalls) session.Page {
	if q.Soonest {
		return soonest(l, q, now, stalls)
	}
	look := localLook{query: q, now: now, stalls: stalls, upTo: q.After}
	if q.Filter.Scope != session.ScopeGlobal {
		for l.lookOn(&look) {
		}
	}
	return look.page
}

// localLook is a list under way.
type localLook struct {
	query  session.Query
	now    time.Duration
	stalls *session.Stalls
	// upTo is the id looked at last, whose session may have ended since. The list goes on after it.
	upTo session.ID
	// looked is how many sessions the list has looked at.
	looked int
	page   session.Page
}

// lookOn goes on with a list for up to maxHeld ids, and reports whether more remain.
func (l *Local) lookOn(look *localLook) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearch(l.order, look.upTo)
	if found {
		i++
	}
	end := min(i+maxHeld, len(l.order))
	for ; i < end; i++ {
		if s := l.serving[l.order[i]]; s != nil {
			if len(look.page.Sessions) == look.query.Size || look.looked == maxScan {
				look.page.Next = look.upTo
				return false
			}
			look.at(s, l.listed(s, look.now, look.stalls))
		}
		look.upTo = l.order[i]
	}
	return end < len(l.order)
}

// at looks at a session. Called with mu held.
func (look *localLook) at(s *local, listed session.Listed) {
	look.looked++
	if look.query.Filter.Match(&s.facts) && look.query.Filter.MatchRemaining(listed.Remaining) {
		look.page.Sessions = append(look.page.Sessions, listed)
	}
}

// merge makes one page of two, each of which is complete up to its Next. When a session is on both pages, the global
// entry counts: the session became global after the local page was made.
func merge(global, local session.Page, size int) session.Page {
	next := global.Next
	if next == 0 || local.Next != 0 && local.Next < next {
		next = local.Next
	}
	all := slices.Concat(global.Sessions, local.Sessions)
	slices.SortStableFunc(all, func(x, y session.Listed) int { return cmp.Compare(x.Session.ID, y.Session.ID) })
	all = slices.CompactFunc(all, func(x, y session.Listed) bool { return x.Session.ID == y.Session.ID })
	if next != 0 {
		i, _ := slices.BinarySearchFunc(all, next+1, func(x session.Listed, id session.ID) int {
			return cmp.Compare(x.Session.ID, id)
		})
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
