package proposer

// queue is a linked list of proposals. The links lie in the proposals, so a proposal can leave the middle and a queued
// proposal costs no further memory. The zero value is empty.
type queue struct {
	first, last *proposal
	length      int
}

// push appends q, which must not be queued.
func (l *queue) push(q *proposal) {
	q.before, q.after, q.queued = l.last, nil, true
	if l.last == nil {
		l.first = q
	} else {
		l.last.after = q
	}
	l.last = q
	l.length++
}

// remove removes q, which must be in l.
func (l *queue) remove(q *proposal) {
	if q.before == nil {
		l.first = q.after
	} else {
		q.before.after = q.after
	}
	if q.after == nil {
		l.last = q.before
	} else {
		q.after.before = q.before
	}
	q.before, q.after, q.queued = nil, nil, false
	l.length--
}
