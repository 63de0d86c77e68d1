package lane

import (
	"slices"

	"holdfast/session"
)

// order is the requests of a session under one attachment that wait, in the order in which they came (G3). The first
// sent of them are writes that the queue has: a write does not wait for earlier writes. A read waits for all of them,
// and what is behind a read that waits has to wait too.
type order struct {
	conn *Conn
	of   attached
	// from is the index of the entry that made the attachment.
	from  uint64
	items []*Pending
	sent  int
	// marked says that the order is to be looked at once the lane's pass has ended. guest says that another connection
	// serves the attachment.
	marked, guest bool
	// next is the order of another connection for the same attachment, or nil.
	next *order
}

// add puts a request behind all others.
func (o *order) add(p *Pending) { o.items = append(o.items, p) }

// find returns the place of a write that the queue has, or -1.
func (o *order) find(number uint64) int {
	return slices.IndexFunc(o.items[:o.sent], func(p *Pending) bool { return p.write.Number == number })
}

// remove takes a request out.
func (o *order) remove(l *Lane, i int) {
	p := o.items[i]
	if i == 0 { // the usual case: answers come in order
		o.items[0] = nil
		o.items = o.items[1:]
	} else {
		o.items = slices.Delete(o.items, i, i+1)
	}
	if i < o.sent {
		o.sent--
	}
	l.done(p)
}

// advance sends the writes whose turn it is, and serves the reads.
func (l *Lane) advance(o *order) {
	for o.sent < len(o.items) {
		p := o.items[o.sent]
		switch {
		case p.kind == writing && p.index > l.Index():
			l.due.add(p)
			return
		case p.kind == writing && p.wroteAlready(l):
			if o.sent > 0 {
				return
			}
			o.remove(l, 0)
			l.node.Writes.Repeated(&p.write)
			p.answerKept(l)
		case p.kind == writing:
			if err := l.node.Writes.Accept(&p.write); err != nil {
				p.kind, p.refusal = refusing, err // answered in its turn
				continue
			}
			o.sent++
		case o.sent > 0: // earlier writes are unanswered
			return
		case !l.ready(p):
			return
		default:
			o.remove(l, 0)
			l.serve(p)
		}
	}
}

// done forgets a request.
func (l *Lane) done(p *Pending) {
	p.conn.answered(p)
	delete(p.conn.loose, p)
	l.due.remove(p)
	p.unasked = false // what the leader says of it is late
	p.blocked = false
}

// wroteAlready reports whether the lane shows that a write's number is taken: no result of it is to come that the lane
// has not passed. Without, the queue of writes, which has heard of the result, takes the repeat and sends nothing, and
// nobody answers it (I18).
func (p *Pending) wroteAlready(l *Lane) bool {
	return p.write.Number <= l.shown.Kept.Applied(uint64(p.write.Session))
}

// answerKept answers a write whose number is taken.
func (p *Pending) answerKept(l *Lane) {
	result, kept := l.shown.Kept.Result(uint64(p.write.Session), p.write.Number)
	var err error
	if !kept {
		err = session.ErrOutcomeUnknown
	}
	l.answerNow(p, result, err)
}

// answer places the answer to a request, which is whole.
func (l *Lane) answer(p *Pending, a *Answer) {
	p.conn.reserve(a, plainAnswer+len(a.Result), true)
}

// plainAnswer is what an answer takes besides what was read or is kept.
const plainAnswer = 64

// answerNow answers a request as of the lane's tree.
func (l *Lane) answerNow(p *Pending, result []byte, err error) {
	l.answer(p, &Answer{Key: p.key, Stamp: l.now(), Result: result, Err: err})
}

// giveUp answers a request that waits with an error.
func (l *Lane) giveUp(p *Pending, err error) {
	if p.queue != nil {
		// It keeps its turn, and is answered with the error then.
		p.kind, p.refusal, p.unasked = refusing, err, false
		l.due.remove(p)
		l.advance(p.queue)
		return
	}
	l.done(p)
	l.answerNow(p, nil, err)
}

// orderOf returns the order that a request of a session is in.
func (c *Conn) orderOf(id, attachment uint64) (*order, error) {
	if o := c.orders[attached{session.ID(id), attachment}]; o != nil {
		return o, nil
	}
	return nil, session.ErrMoved
}
