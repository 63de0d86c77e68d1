package fsm

import (
	"container/list"
	"fmt"
	"time"
)

// arrivalShare is the share of arrivals while commands wait in both lanes: one byte in arrivalShare is theirs.
const arrivalShare = 8

// lanes is the queue of a [Proposer]: two lanes, each in the order in which its commands came. Commands about sessions
// that exist go before arrivals, which get a share all the same. A cluster has about as many closes and moves as it has
// sessions. Without a lane of their own they would wait behind any number of opens of a crowd of new clients.
//
// Closes and moves are in one lane, because an expiry that overtook the resume of its session would end a session whose
// client was heard. The lanes need no order between them: a leader proposes commands about a session only after it has
// applied the entry that made the session. The zero value is empty.
type lanes struct {
	// standing holds the commands about sessions that exist and the leader's own, arriving holds the arrivals. Their
	// elements are *proposal, the oldest first.
	standing, arriving list.List
	// passed counts the bytes of standing that were sent while arrivals waited. An arrival that is sent takes its debt
	// off.
	passed int
}

// of returns the lane of q.
func (l *lanes) of(q *proposal) *list.List {
	if q.kind == arrivals {
		return &l.arriving
	}
	return &l.standing
}

func (l *lanes) push(q *proposal) { q.place = l.of(q).PushBack(q) }

// remove takes q out of its lane, where it must be.
func (l *lanes) remove(q *proposal) {
	l.of(q).Remove(q.place)
	q.place = nil
}

// next returns the proposal to send next, nil when the queue is empty.
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

// debt returns how many bytes of the other lane the arrival q lets pass before it.
func (q *proposal) debt() int { return (arrivalShare - 1) * len(q.encoded) }

// take removes q, which next has just returned, because it is sent.
func (l *lanes) take(q *proposal) {
	l.remove(q)
	switch {
	case q.kind == arrivals:
		l.passed = max(l.passed-q.debt(), 0)
	case l.arriving.Len() > 0:
		l.passed += len(q.encoded)
	}
	if l.arriving.Len() == 0 {
		l.passed = 0 // the share is not saved up for later arrivals
	}
}

// deadline returns the earliest deadline of the queue, zero when the queue is empty.
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

// each removes proposals from the front of each lane as long as they are wanted, and calls then for each.
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
		panic(fmt.Sprintf("fsm: the queue holds a %T, which is no proposal", e.Value))
	}
	return q
}
