package fsm

// lane is a queue of proposals. Each proposal is a link of the chain, so that one in the middle can leave it, and none
// costs memory of its own. The zero value is empty.
type lane struct {
	first, last *proposal
	length      int
}

// push puts q, which is in no lane, behind the others.
func (l *lane) push(q *proposal) {
	q.before, q.after, q.queued = l.last, nil, true
	if l.last == nil {
		l.first = q
	} else {
		l.last.after = q
	}
	l.last = q
	l.length++
}

// remove takes q, which is in this lane, out of it.
func (l *lane) remove(q *proposal) {
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
