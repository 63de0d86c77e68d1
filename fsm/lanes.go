package fsm

import (
	"time"

	"holdfast/session"
)

// arrivalShare is the share of arrivals while commands wait in both lanes: of arrivalShare sessions that an entry
// changes, one is theirs.
const arrivalShare = 8

// entryCost bounds what applying one entry costs, see costOf: the moves that one command makes, and the arrivals' share
// beside them. All that comes behind an entry waits while it is applied. With these costs that is some 5 ms, also
// while other work shares the processors, whatever storm the commands come from.
const entryCost = moveCost * (session.MaxBatch + session.MaxBatch/(arrivalShare-1))

// crowdedWork bounds the sessions of the other lane in one entry while arrivals come: a storm is then applied in small
// steps, so that an arrival waits for little of it. crowdedFor is how long arrivals count as coming after one has
// waited. A storm that nobody waits behind gets full entries, because each entry costs a turn of the log.
const (
	crowdedWork = session.MaxCloseBatch
	crowdedFor  = 100 * time.Millisecond
)

// What applying costs, what observers do included (BenchmarkApplyClose, BenchmarkApplyMove, BenchmarkApplyOpen). An end
// costs about 1 us, and a forgotten request id a quarter of that.
const (
	endCost    = 1
	moveCost   = 4
	forgetCost = session.MaxForget / 4
)

// costOf returns what applying a command costs. Counts stand for the time, because what a leader puts into one entry
// must not depend on how fast it is.
func costOf(c session.Command) int {
	switch c := c.(type) {
	case session.CloseSessions:
		return endCost * len(c.Sessions)
	case session.ForgetRequests:
		return forgetCost
	default:
		return moveCost * workOf(c)
	}
}

// weightOf returns the work that a command makes in the tree (U2).
func weightOf(c session.Command) int {
	switch c := c.(type) {
	case session.TreeCommand:
		return c.Weight
	case session.CloseSessions:
		return c.Weight
	default:
		return 1
	}
}

// workOf returns the number of sessions that a command changes.
func workOf(c session.Command) int {
	switch c := c.(type) {
	case session.CloseSessions:
		return len(c.Sessions)
	case session.MoveSessions:
		return len(c.Sessions)
	default:
		return 1
	}
}

// lanes is the queue of a [Proposer]. Commands about sessions that exist and writes to the tree go in turn, and before
// arrivals, which get a share all the same. A cluster has about as many closes and moves as it has sessions. Without a
// lane of their own they would wait behind any number of opens of a crowd of new clients, or behind the writes that
// clients have queued.
//
// Closes and moves are in one lane, because an expiry that overtook the resume of its session would end a session whose
// client was heard. The lanes need no order between them: a leader proposes commands about a session only after it has
// applied the entry that made the session, and a node sends the writes of an attachment only after it has applied the
// move that made that. The zero value is empty.
type lanes struct {
	// standing holds the commands about sessions that exist and the leader's own, arriving holds the arrivals, each the
	// oldest first. writing holds the writes.
	standing, arriving lane
	writing            writeLane
	// passed counts what was sent while arrivals waited. An arrival that is sent takes its debt off.
	passed int
	// turn counts what was sent of standing while writes waited, less what was sent of the writes, both as
	// [proposal.passes].
	turn int
}

func (l *lanes) push(q *proposal) {
	if q.kind == writes {
		l.writing.push(q)
		return
	}
	l.other(q).push(q)
}

// other returns the lane of q, which is no write.
func (l *lanes) other(q *proposal) *lane {
	if q.kind == arrivals {
		return &l.arriving
	}
	return &l.standing
}

// remove takes q, which is not sent, out of its lane, where it must be.
func (l *lanes) remove(q *proposal) {
	if q.kind == writes {
		l.writing.remove(q)
	} else {
		l.other(q).remove(q)
	}
	l.forget()
}

// forget drops the shares of those of which none waits: no share is saved up.
func (l *lanes) forget() {
	if l.arriving.length == 0 {
		l.passed = 0
	}
	if l.writing.length == 0 {
		l.turn = 0
	}
}

// next returns the proposal to send next, nil when the queue is empty.
func (l *lanes) next() *proposal { return l.choose(l.writing.next()) }

// nextOther is next for an entry that has no room for the write whose turn it is.
func (l *lanes) nextOther() *proposal { return l.choose(nil) }

func (l *lanes) choose(write *proposal) *proposal {
	first, arriving := l.standing.first, l.arriving.first
	if write != nil && (first == nil || l.turn >= write.passes) {
		first = write
	}
	switch {
	case arriving == nil:
		return first
	case first == nil, l.passed >= arriving.debt():
		return arriving
	default:
		return first
	}
}

// debt returns how many sessions of the other lane the arrival q lets pass before it.
func (q *proposal) debt() int { return (arrivalShare - 1) * q.work }

// take removes q, which next has just returned, because it is sent.
func (l *lanes) take(q *proposal) {
	if q.kind == writes {
		l.writing.take(q)
		l.turn = max(l.turn-q.passes, 0)
	} else {
		l.other(q).remove(q)
	}
	if q.kind == arrivals {
		l.passed = max(l.passed-q.debt(), 0)
	} else {
		l.passed += q.passes
	}
	if q.kind != writes && q.kind != arrivals {
		l.turn += q.passes
	}
	l.forget()
}

// deadline returns the earliest deadline of the queue, zero when the queue is empty.
func (l *lanes) deadline() time.Time {
	var earliest time.Time
	for _, q := range []*proposal{l.standing.first, l.writing.first, l.arriving.first} {
		if q != nil && (earliest.IsZero() || q.deadline.Before(earliest)) {
			earliest = q.deadline
		}
	}
	return earliest
}

// each removes proposals from the front of each lane as long as they are wanted, and calls then for each.
func (l *lanes) each(wanted func(*proposal) bool, then func(*proposal)) {
	for _, lane := range []*lane{&l.standing, &l.writing.lane, &l.arriving} {
		for q := lane.first; q != nil && wanted(q); q = lane.first {
			l.remove(q)
			then(q)
		}
	}
}
