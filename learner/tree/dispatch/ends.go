package dispatch

import (
	"sync"

	"holdfast/session"
)

// detachment is the end of an attachment's service.
type detachment struct {
	of    attached
	index uint64
	why   error
}

// detachments are the attachments whose service ends once the dispatcher has passed their index (V7). Safe for
// concurrent use.
type detachments struct {
	mu  sync.Mutex
	all []detachment // guarded by mu
}

// passed removes and returns the ends at or below index.
func (e *detachments) passed(index uint64) (passed []detachment) {
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

// Detach ends the service of an attachment with the entry at index, which ended or moved the session. Until the
// dispatcher shows that entry, the connection still gets earlier answers. Then waiting requests are answered with why,
// and nothing follows (V7 events before Moved and Gone).
//
// It is called before the hub records the entry, by any goroutine.
func (d *Dispatcher) Detach(id session.ID, attachment, index uint64, why error) {
	d.detached.mu.Lock()
	d.detached.all = append(d.detached.all, detachment{attached{id, attachment}, index, why})
	d.detached.mu.Unlock()
	d.wake()
}

// sight says whether a dispatcher has seen the results of the entries that it has just passed.
type sight uint8

const (
	seen   sight = iota // all results of its writes
	missed              // perhaps not all
)

// end ends the attachments whose end the dispatcher shows.
//
// If the dispatcher has missed results, a sent write may have been applied before the end, and a kept result may belong
// to another process: the only true answer is that the outcome is unknown. If the dispatcher has seen all results, the
// write was not applied before the end, and cannot be later (W3 attachment check).
func (d *Dispatcher) end(known sight) {
	for _, e := range d.detached.passed(d.Index()) {
		for o := d.sessions[e.of]; o != nil; o = o.next {
			o.end(d, func(p *Request) error {
				if known == missed && o.sent > 0 && p.kind != reading {
					return session.ErrOutcomeUnknown
				}
				return e.why
			})
		}
	}
}

// end answers all waiting requests with errors, and forgets the queue.
func (o *sessionQueue) end(d *Dispatcher, why func(*Request) error) {
	for len(o.items) > 0 {
		p := o.items[0]
		err := why(p)
		o.remove(d, 0)
		if p.kind == barrier {
			p.passed()
			continue
		}
		d.answerNow(p, nil, err)
	}
	o.forget(d)
}

// forget removes the queue of an attachment, which has no requests.
func (o *sessionQueue) forget(d *Dispatcher) {
	delete(o.conn.queues, o.of)
	switch first := d.sessions[o.of]; {
	case first != o:
		for first.next != o {
			first = first.next
		}
		first.next = o.next
	case o.next != nil:
		d.sessions[o.of] = o.next
	default:
		delete(d.sessions, o.of)
	}
	d.node.Hub.serve(o.of, -1)
}
