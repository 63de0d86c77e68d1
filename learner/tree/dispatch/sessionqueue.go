package dispatch

import (
	"slices"

	"holdfast/session"
)

// sessionQueue holds the waiting requests of a session under one attachment, in the order of arrival (G3 order in a
// session). The first sent of them are writes in the pending table, and reads between them: a write waits neither for
// earlier writes nor for earlier reads, if those can be answered from the tree before the write. Other requests wait
// for everything before them, and everything waits for them.
type sessionQueue struct {
	conn *Conn
	of   attached
	// from is the index of the entry that made the attachment.
	from  uint64
	items []*Request
	sent  int
	// body is the size of the largest write since no request was sent: a read behind it may show as much.
	body int
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

// nextWrite returns the index of the first sent write; sent if there is none.
func (o *sessionQueue) nextWrite() int {
	if i := slices.IndexFunc(o.items[:o.sent], func(p *Request) bool { return p.kind != reading }); i >= 0 {
		return i
	}
	return o.sent
}

// hasReads reports whether writes have passed reads that are not answered.
func (o *sessionQueue) hasReads() bool {
	return slices.ContainsFunc(o.items[:o.sent], func(p *Request) bool { return p.kind == reading })
}

// serveReads removes the reads at the head of the queue, up to the request with index end, and calls serve with each.
// It returns their number.
func (o *sessionQueue) serveReads(d *Dispatcher, end int, serve func(p *Request)) (served int) {
	for served < end && o.items[0].kind == reading {
		p := o.items[0]
		o.remove(d, 0)
		serve(p)
		served++
	}
	return served
}

// writeFollows reports whether a write follows the requests that are sent, with nothing but reads between.
func (o *sessionQueue) writeFollows() bool {
	i := slices.IndexFunc(o.items[o.sent:], func(p *Request) bool { return p.kind != reading })
	return i >= 0 && o.items[o.sent+i].kind == writing
}

// letPass lets later writes be sent before a read is answered, and reserves memory for the answer; or it returns false.
// The trees before later writes satisfy the read, since the dispatcher's tree already has the read's index. A watch
// would have to be registered as of such a tree.
func (d *Dispatcher) letPass(p *Request) bool {
	if p.awaitsIndex || p.index > d.Index() || p.query.Watch || !p.queue.writeFollows() || !p.conn.mayHold() {
		return false
	}
	stat, _ := d.shown.Root.Stat(p.query.Path)
	stat.Bytes = max(stat.Bytes, p.queue.body)
	p.reserved = largest(&p.query, stat)
	p.conn.hold(p.reserved)
	return true
}

// send gives a write to the pending table; false if the write waits because the node keeps too many trees for reads.
func (d *Dispatcher) send(o *sessionQueue, p *Request) bool {
	if o.sent > 0 && o.items[o.sent-1].kind == reading {
		if !d.node.Hub.reserveTree() {
			return false
		}
		p.write.ReadsBefore = true
	}
	if err := d.node.Writes.Accept(&p.write.Write); err != nil {
		d.node.Hub.releaseTree(p)
		p.kind, p.refusal = refusing, err // answered in its turn
		return true
	}
	o.sent++
	o.body = max(o.body, len(p.write.Body))
	return true
}

// serveUnpassed serves the reads at the head of the queue that no unanswered write precedes. Reads that no write has
// passed are not sent any more.
func (d *Dispatcher) serveUnpassed(o *sessionQueue) {
	switch next := o.nextWrite(); {
	case next == o.sent:
		for _, p := range o.items[:o.sent] {
			p.conn.hold(-p.reserved)
			p.reserved = 0
		}
		o.sent, o.body = 0, 0
	case o.items[next].write.Number > d.shown.applied(o.of.id):
		o.serveReads(d, next, func(p *Request) { d.serveFrom(p, d.shown.Root, d.now()) })
	}
}

// advance sends the writes whose turn has come, and serves the reads.
func (d *Dispatcher) advance(o *sessionQueue) {
	d.serveUnpassed(o)
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
		case p.kind == writing && p.write.Void && o.hasReads():
			return // it has the number of an earlier write, whose outcome answers both
		case p.kind == writing:
			if !d.send(o, p) {
				return
			}
		case o.sent > 0 && p.kind == reading && d.letPass(p):
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
	p.conn.hold(-p.reserved)
	d.node.Hub.releaseTree(p)
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
