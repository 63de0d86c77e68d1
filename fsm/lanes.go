package fsm

import (
	"container/list"
	"time"
)

// arrivalShare is which part of the bytes that are sent is for arrivals while other commands wait too: one in so many.
const arrivalShare = 8

// lanes is the queue of a [Proposer]: two lanes, each in the order in which its commands came. What ends and moves
// sessions that exist goes before what makes more of them: there are as many of those commands as there are sessions
// and expiries, and without a lane of their own they would wait behind every open that a crowd of new clients can think
// of. Arrivals have their share all the same.
//
// Closes and moves are in one lane: an expiry that overtook the resume of its session would end a session whose client
// was heard. Between the lanes no order is needed. A command about a session is proposed when the leader has applied
// what made the session, so that none of a session's commands waits behind its open. The zero value is empty.
type lanes struct {
	standing, arriving list.List // of *proposal, oldest first
	// passed are the bytes of standing that were sent while arrivals waited, less those that arrivals made up for.
	passed int
}

func (l *lanes) of(q *proposal) *list.List {
	if q.kind == arrivals {
		return &l.arriving
	}
	return &l.standing
}

func (l *lanes) push(q *proposal) { q.place = l.of(q).PushBack(q) }

// remove takes q out, which must be in.
func (l *lanes) remove(q *proposal) {
	l.of(q).Remove(q.place)
	q.place = nil
}

// next returns what is to be sent next, nil when nothing waits.
func (l *lanes) next() *proposal {
	standing, arriving := front(&l.standing), front(&l.arriving)
	switch {
	case arriving == nil:
		return standing
	case standing == nil, l.passed >= arriving.debt():
		return arriving
	default:
		return standing
	}
}

// debt is how many bytes of the other lane an arrival waits for.
func (q *proposal) debt() int { return (arrivalShare - 1) * len(q.encoded) }

// take removes q, which next returned, as sent.
func (l *lanes) take(q *proposal) {
	l.remove(q)
	switch {
	case q.kind == arrivals:
		l.passed = max(l.passed-q.debt(), 0)
	case l.arriving.Len() > 0:
		l.passed += len(q.encoded)
	}
	if l.arriving.Len() == 0 {
		l.passed = 0 // who is not there saves nothing up
	}
}

// deadline returns the earliest one, zero when nothing waits.
func (l *lanes) deadline() time.Time {
	standing, arriving := front(&l.standing), front(&l.arriving)
	switch {
	case standing == nil && arriving == nil:
		return time.Time{}
	case standing == nil, arriving != nil && arriving.deadline.Before(standing.deadline):
		return arriving.deadline
	default:
		return standing.deadline
	}
}

// each removes, lane by lane and from the front, every proposal up to the first of its lane that is not wanted, and
// hands it on.
func (l *lanes) each(wanted func(*proposal) bool, then func(*proposal)) {
	for _, lane := range []*list.List{&l.standing, &l.arriving} {
		for q := front(lane); q != nil && wanted(q); q = front(lane) {
			l.remove(q)
			then(q)
		}
	}
	if l.arriving.Len() == 0 {
		l.passed = 0
	}
}

func front(l *list.List) *proposal {
	e := l.Front()
	if e == nil {
		return nil
	}
	q, ok := e.Value.(*proposal)
	if !ok {
		panic("fsm: the queue holds something that is no proposal")
	}
	return q
}
