package proposer

import (
	"time"

	"holdfast/session"
)

// openShare is the share of opens while changes or writes wait too: one in openShare sessions of an entry is an open.
const openShare = 8

// entryCost bounds the cost of applying one entry, see costOf: the moves of one command, and the share of opens in the
// same entry. All later commands wait while the state applies an entry. This bound keeps the wait at some 5 ms,
// whatever storm the commands come from, also while other work shares the processors.
const entryCost = moveCost * (session.MaxBatch + session.MaxBatch/(openShare-1))

// workWithOpens bounds the sessions that changes and writes have in one entry while opens come: the state then
// applies a storm in small steps, so that an open waits for little of it. Opens count as coming until opensWaitFor
// after one has waited. Without opens a storm gets full entries, because each entry costs a turn of the log.
const (
	workWithOpens = session.MaxCloseBatch
	opensWaitFor  = 100 * time.Millisecond
)

// queues are the queues of a [Proposer], and the order between them. The package comment says why there are three. No
// queue needs an order with another: a leader proposes commands about a session only after it has applied the entry
// that opened the session, and a node sends the writes of an attachment only after it has applied the move that made
// the attachment. The zero value is empty.
type queues struct {
	// changes holds the commands about existing sessions and the leader's own, opens the commands that add sessions or
	// ids, each the oldest first.
	changes, opens queue
	writes         writeQueue
	// openCredit is the sum of the charges of the changes and writes that were sent while opens waited. An open that is
	// sent costs its creditNeeded.
	openCredit int
	// writeCredit is the sum of the charges of the changes that were sent while writes waited, less the charges of the
	// writes that were sent.
	writeCredit int
}

func (l *queues) push(q *proposal) {
	if q.kind == writes {
		l.writes.push(q)
		return
	}
	l.queueOf(q).push(q)
}

// queueOf returns the queue of a proposal that is no write.
func (l *queues) queueOf(q *proposal) *queue {
	if q.kind == opens {
		return &l.opens
	}
	return &l.changes
}

// remove removes q, which is queued and will not be sent.
func (l *queues) remove(q *proposal) {
	if q.kind == writes {
		l.writes.remove(q)
	} else {
		l.queueOf(q).remove(q)
	}
	l.dropIdleCredit()
}

// dropIdleCredit drops the credit of an empty queue: no queue saves up a share.
func (l *queues) dropIdleCredit() {
	if l.opens.length == 0 {
		l.openCredit = 0
	}
	if l.writes.length == 0 {
		l.writeCredit = 0
	}
}

// next returns the proposal to send next, or nil when the queues are empty.
func (l *queues) next() *proposal { return l.choose(l.writes.next()) }

// nextNoWrite is next for an entry without space for the next write.
func (l *queues) nextNoWrite() *proposal { return l.choose(nil) }

// choose returns the next of write, the first change and the first open.
func (l *queues) choose(write *proposal) *proposal {
	first, open := l.changes.first, l.opens.first
	if write != nil && (first == nil || l.writeCredit >= write.charge) {
		first = write
	}
	switch {
	case open == nil:
		return first
	case first == nil, l.openCredit >= open.creditNeeded():
		return open
	default:
		return first
	}
}

// creditNeeded returns how many sessions of changes and writes go before the open q.
func (q *proposal) creditNeeded() int { return (openShare - 1) * q.work }

// removeSent removes q, which next has just returned and the caller sends. It counts q against the shares.
func (l *queues) removeSent(q *proposal) {
	if q.kind == writes {
		l.writes.removeSent(q)
		l.writeCredit = max(l.writeCredit-q.charge, 0)
	} else {
		l.queueOf(q).remove(q)
	}
	if q.kind == opens {
		l.openCredit = max(l.openCredit-q.creditNeeded(), 0)
	} else {
		l.openCredit += q.charge
	}
	if q.kind != writes && q.kind != opens {
		l.writeCredit += q.charge
	}
	l.dropIdleCredit()
}

// deadline returns the earliest deadline, or zero when the queues are empty.
func (l *queues) deadline() time.Time {
	var earliest time.Time
	for _, q := range []*proposal{l.changes.first, l.writes.first, l.opens.first} {
		if q != nil && (earliest.IsZero() || q.deadline.Before(earliest)) {
			earliest = q.deadline
		}
	}
	return earliest
}

// popWhile removes proposals from the front of each queue while wanted reports true, and calls then for each of them.
func (l *queues) popWhile(wanted func(*proposal) bool, then func(*proposal)) {
	for _, one := range []*queue{&l.changes, &l.writes.queue, &l.opens} {
		for q := one.first; q != nil && wanted(q); q = one.first {
			l.remove(q)
			then(q)
		}
	}
}
