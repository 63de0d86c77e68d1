package client

import (
	"slices"
	"time"

	"holdfast/client/internal/route"
)

// waiting are requests that were refused for now, the one that is due first at the front.
type waiting []*request

// push adds a request. Most are due after all others: a node that refuses many names one moment after the other.
func (w *waiting) push(r *request) {
	i, _ := slices.BinarySearchFunc(*w, r.due, func(other *request, due time.Time) int {
		if other.due.After(due) {
			return 1
		}
		return -1
	})
	*w = slices.Insert(*w, i, r)
}

// pop takes those that are due.
func (w *waiting) pop(now time.Time) []*request {
	n := 0
	for n < len(*w) && !now.Before((*w)[n].due) {
		n++
	}
	due := (*w)[:n:n]
	if *w = (*w)[n:]; len(*w) == 0 {
		*w = nil
	}
	return due
}

// dueAt returns when the first is due; zero for never.
func (w *waiting) dueAt() time.Time {
	if len(*w) == 0 {
		return time.Time{}
	}
	return (*w)[0].due
}

// maxPutOffs is how often a node that is tried may put off the same resume before another one is asked: its moments
// mean little then.
const maxPutOffs = 3

// comesBack returns after how long r is sent again that the node refused with err for the n-th time: when the node
// says, with jitter on top. A resume comes back after half of what is left of its session's promise at the latest: the
// queue may have become shorter, and the node says so. When nothing is left, a back-off is all it waits: it may find a
// token, and later there is no session.
func (l *loop) comesBack(r *request, n int, err error) time.Duration {
	wait := l.jitter.Wait(n, err)
	if b, resume := r.body.(*resumeBody); resume && b.h.joining == nil {
		wait = min(wait, max(b.h.until.Sub(l.now)/2, l.jitter.Backoff(n)))
	}
	return wait
}

// putsOff reports that c has refused for now all that it was asked for.
func (c *conn) putsOff() bool { return len(c.again) > 0 && len(c.inflight) == 0 && len(c.queue) == 0 }

// putOff decides what becomes of a connection that is tried and has refused a resume with err, which names a moment.
// When it has put off everything it was asked for, the client stays if each session may: what is promised it lasts
// until the moment the node named and as much longer as an attempt at another node may take, or the wait itself is no
// longer than such an attempt; and it has not been put off too often. Otherwise another node is tried at once, and this
// one not before the moment at which the first resume would have come back. A client that is served by the node already
// stays in any case: moving all its sessions for the sake of some would make the crowd larger.
func (l *loop) putOff(c *conn, err error) {
	if c != l.next || route.Hint(err) == 0 || !c.putsOff() {
		return // it is not tried, names none, or may yet do what it has not answered
	}
	first, spare := c.again.dueAt(), l.bound(tryPart, patience)
	if c.jeopardy && !first.Before(c.deadline) ||
		slices.ContainsFunc(c.again, func(r *request) bool { return l.tooLate(r, spare) }) {
		l.router.Postpone(l.now, c.Target, first)
		l.failedNext(err)
		return
	}
	if !c.jeopardy { // one that hears of no leader is given no more time than it has
		c.deadline = first.Add(spare)
	}
}

// tooLate reports whether a request that was put off is to be tried elsewhere, where it takes as long as spare. When
// another node has put the client off already, there is little to find elsewhere, and a moment within the promise is
// good enough: a client that goes to and fro has no place.
func (l *loop) tooLate(r *request, spare time.Duration) bool {
	b, resume := r.body.(*resumeBody)
	switch {
	case !resume || !b.wanted():
		return false
	case r.refused >= maxPutOffs:
		return true
	}
	if !l.router.Soonest(l.now).IsZero() {
		spare = 0
	}
	return r.named.After(l.now.Add(l.bound(connectPart, l.cfg.ConnectTimeout))) && r.named.Add(spare).After(b.h.until)
}
