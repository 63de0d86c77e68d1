package dispatch

import (
	"slices"

	"holdfast/session"
)

// sessionQueue holds the waiting requests of a session under one attachment, in the order of arrival (G3 order in a
// session). The first sent of them are writes in the pending table: a write does not wait for earlier writes. A read
// waits for all of them, and requests behind a waiting read wait too.
type sessionQueue struct {
	conn *Conn
	of   attached
	// from is the index of the entry that made the attachment.
	from  uint64
	items []*Request
	sent  int
	// toAdvance says that the queue is advanced once the dispatcher's pass has ended. guest says that another
	// connection serves the attachment.
	toAdvance, guest bool
	// next is the queue of another connection for the same attachment; nil for none.
	next *sessionQueue
}

// add puts a request behind all others.
func (o *sessionQueue) add(p *Request) { o.items = append(o.items, p) }

// find returns the index of a sent write; -1 for none.
func (o *sessionQueue) find(number uint64) int {
	return slices.IndexFunc(o.items[:o.sent], func(p *Request) bool { return p.write.Number == number })
}

// remove removes a request.
func (o *sessionQueue) remove(d *Dispatcher, i int) {
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
	d.done(p)
}

// advance sends the writes whose turn has come, and serves the reads.
func (d *Dispatcher) advance(o *sessionQueue) {
	for o.sent < len(o.items) {
		p := o.items[o.sent]
		switch {
		case p.kind == writing && p.index > d.Index():
			d.due.add(p)
			return
		case p.kind == writing && p.isRepeat(d):
			if o.sent > 0 {
				return
			}
			o.remove(d, 0)
			d.node.Writes.Repeated(&p.write.Write)
			p.answerFromResult(d)
		case p.kind == writing:
			if err := d.node.Writes.Accept(&p.write.Write); err != nil {
				p.kind, p.refusal = refusing, err // answered in its turn
				continue
			}
			o.sent++
		case o.sent > 0: // earlier writes are unanswered
			return
		case !d.ready(p):
			return
		default:
			o.remove(d, 0)
			d.serve(p)
		}
	}
}

// done forgets a request.
func (d *Dispatcher) done(p *Request) {
	p.conn.answered(p)
	delete(p.conn.sessionless, p)
	d.due.remove(p)
	p.awaitsIndex = false // a later answer of the leader is ignored
	p.blocked = false
}

// isRepeat reports whether the dispatcher's state has already used a write's number: no later pass brings its result.
// The pending table, which knows the result, would accept the repeat and send nothing, and the write would never be
// answered (I18 an answer).
func (p *Request) isRepeat(d *Dispatcher) bool {
	return p.write.Number <= d.shown.applied(p.write.Session)
}

// answerFromResult answers a write whose number is used.
func (p *Request) answerFromResult(d *Dispatcher) {
	result, kept := d.shown.Writers.Result(uint64(p.write.Session), p.write.Number)
	var err error
	if !kept {
		err = session.ErrOutcomeUnknown
	}
	d.answerNow(p, result, err)
}

// answer queues the complete answer to a request.
func (d *Dispatcher) answer(p *Request, a *Answer) {
	p.conn.reserve(a, plainAnswer+len(a.Result), true)
}

// plainAnswer is the memory of an answer besides its contents.
const plainAnswer = 64

// answerNow answers a request as of the dispatcher's tree.
func (d *Dispatcher) answerNow(p *Request, result []byte, err error) {
	d.answer(p, &Answer{Key: p.key, Stamp: d.now(), Result: result, Err: err})
}

// fail answers a waiting request with an error.
func (d *Dispatcher) fail(p *Request, err error) {
	if p.queue != nil {
		// The request keeps its turn, and is then answered with the error.
		p.kind, p.refusal, p.awaitsIndex = refusing, err, false
		d.due.remove(p)
		d.advance(p.queue)
		return
	}
	d.done(p)
	d.answerNow(p, nil, err)
}

// queueOf returns the queue for a request of a session.
func (c *Conn) queueOf(id, attachment uint64) (*sessionQueue, error) {
	if o := c.queues[attached{session.ID(id), attachment}]; o != nil {
		return o, nil
	}
	return nil, session.ErrMoved
}
