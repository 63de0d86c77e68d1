package lane

import (
	"sync"

	"holdfast/session"
)

// ending is the end of an attachment.
type ending struct {
	of    attached
	index uint64
	why   error
}

// endings are the attachments that are served no more once the lane has passed their index (V7). Safe for concurrent
// use.
type endings struct {
	mu  sync.Mutex
	all []ending // guarded by mu
}

// passed takes out the ends at or below index.
func (e *endings) passed(index uint64) (passed []ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	left := e.all[:0]
	for _, one := range e.all {
		if one.index <= index {
			passed = append(passed, one)
		} else {
			left = append(left, one)
		}
	}
	clear(e.all[len(left):])
	e.all = left
	return passed
}

// Detach ends the service of an attachment with the entry at index, which ended or moved the session. Until the lane
// shows that entry, the connection still gets answers from before. Then requests that wait are answered with why, and
// nothing follows (V7).
//
// It is called before the hub is told of the entry, by any goroutine.
func (l *Lane) Detach(id session.ID, attachment, index uint64, why error) {
	l.ends.mu.Lock()
	l.ends.all = append(l.ends.all, ending{attached{id, attachment}, index, why})
	l.ends.mu.Unlock()
	l.wake()
}

// sight is what a lane knows of the entries that it has just passed.
type sight uint8

const (
	seen   sight = iota // all results of its writes
	missed              // perhaps not all
)

// end ends the attachments whose end the lane shows.
//
// If the lane has missed results, a write that was sent may have been applied before the end, and what is kept may be
// another process's: only "it is unknown" is true of it. If the lane has seen all, the write was not applied before the
// end, and cannot be later (W3).
func (l *Lane) end(known sight) {
	for _, e := range l.ends.passed(l.Index()) {
		for o := l.sessions[e.of]; o != nil; o = o.next {
			o.end(l, func() error {
				if known == missed && o.sent > 0 {
					return session.ErrOutcomeUnknown
				}
				return e.why
			})
		}
	}
}

// end answers all that waits with errors, and forgets the order.
func (o *order) end(l *Lane, why func() error) {
	for len(o.items) > 0 {
		p := o.items[0]
		err := why()
		o.remove(l, 0)
		if p.kind == marking {
			p.passed()
			continue
		}
		l.answerNow(p, nil, err)
	}
	o.forget(l)
}

// forget ends the order of an attachment, which has no requests.
func (o *order) forget(l *Lane) {
	delete(o.conn.orders, o.of)
	switch first := l.sessions[o.of]; {
	case first != o:
		for first.next != o {
			first = first.next
		}
		first.next = o.next
	case o.next != nil:
		l.sessions[o.of] = o.next
	default:
		delete(l.sessions, o.of)
	}
	l.node.Hub.serve(o.of, -1)
}
