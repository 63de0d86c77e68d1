package dispatch

import (
	"errors"
	"iter"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Pass goes from the dispatcher's state to the published one, if that is newer (G1 order per connection): it delivers
// each change on the way, and after a command's events the answer if the command is a write of the dispatcher's
// connections. Then the published state becomes the dispatcher's, and requests that waited for it are served. Pass
// reports whether there was a newer state.
//
// Pass reads the published state once, and before the rings. Otherwise it could fire a change that was published in
// between, for a tree that does not show the change.
func (d *Dispatcher) Pass() bool {
	now := *d.node.Hub.shown.Load()
	if now.Index == d.shown.Index && now.restores == d.shown.restores {
		d.end(seen)
		d.unblock()
		return false
	}
	d.clock = now.Clock
	from, to := watch.End(d.Index()), watch.End(now.Index)
	changes, whole := d.node.Hub.changes.Range(from, to)
	results, answered := d.node.Hub.results.Range(from, to)
	if now.restores != d.shown.restores { // the rings have the changes after the snapshot, but not those in it
		whole, answered = false, false
	}
	switch {
	case !whole:
		d.skip(now)
	case !answered:
		d.deliver(changes, func(func(*outcome) bool) {})
		d.show(now)
	default:
		d.deliver(changes, results)
		d.show(now)
	}
	if whole && answered {
		d.end(seen)
	} else {
		d.end(missed) // first: kept results may belong to another attachment
		d.answerFromResults()
	}
	d.serveDue()
	d.unblock()
	return true
}

// serveDue serves the requests that waited for the pass.
func (d *Dispatcher) serveDue() {
	for _, o := range d.toAdvance {
		o.toAdvance = false
		d.advance(o)
	}
	clear(d.toAdvance)
	d.toAdvance = d.toAdvance[:0]
	for p := d.due.reached(d.Index()); p != nil; p = d.due.reached(d.Index()) {
		d.retry(p)
	}
}

// advanceAfterPass marks a queue to be advanced once the pass has ended: until then the dispatcher's tree is the old
// one.
func (d *Dispatcher) advanceAfterPass(o *sessionQueue) {
	if !o.toAdvance {
		o.toAdvance = true
		d.toAdvance = append(d.toAdvance, o)
	}
}

// unblock serves the reads that may run again (G9 answer bounds), in the order of each connection's requests.
func (d *Dispatcher) unblock() {
	freed := d.node.Hub.freed.Load()
	if !d.unblocked.Swap(false) && freed == d.freed {
		return
	}
	d.freed = freed
	for c := range d.starving {
		c.unblock()
	}
}

func (c *Conn) unblock() {
	d := c.dispatcher
	for len(c.blocked) > 0 {
		p := c.blocked[0]
		if p.blocked && !c.hasBudget() {
			return
		}
		c.blocked[0] = nil
		c.blocked = c.blocked[1:]
		if p.blocked { // not answered for another reason
			p.blocked = false
			d.retry(p)
		}
	}
	c.blocked = nil
	delete(d.starving, c)
}

// show makes a state the dispatcher's.
func (d *Dispatcher) show(now State) {
	d.shown = now
	d.table.Advance(now.Index)
	d.stamp.Store(uint64(watch.End(now.Index)))
}

// deliver goes through the rings in the order of the stamps: the reads that came before a write, the events of the
// write, then its answer.
func (d *Dispatcher) deliver(changes iter.Seq[*tree.Change], results iter.Seq[*outcome]) {
	var own []*outcome
	for w := range results {
		if d.sessions[attached{w.Session, w.Attachment}] != nil {
			own = append(own, w)
		}
	}
	for c := range changes {
		for len(own) > 0 && own[0].At < c.Stamp {
			d.deliverOutcome(own[0])
			own = own[1:]
		}
		if len(own) > 0 && own[0].At == c.Stamp {
			d.serveReadsBefore(own[0])
		}
		d.table.Fire(c, fire)
	}
	for _, w := range own {
		d.deliverOutcome(w)
	}
}

func fire(to *watch.Connection[*Conn], e watch.Event) { to.Owner.event(e) }

// skip continues at a state without the changes before it (V6 LOST): the tree shows which one-shot watches have fired,
// and connections with other watches get LOST.
func (d *Dispatcher) skip(now State) {
	d.table.Skip(now.Index, now.Root, fire, func(c *watch.Connection[*Conn], first, last tree.Stamp) {
		c.Owner.lost(first, last)
	})
	d.show(now)
}

// deliverOutcome answers a write, unless it has been answered already: a write may be in the log more than once (X2
// writers). Clients never see that a write came too early, or that results wait for acknowledgement: the pending table
// sends the write again (X7 queue of the node).
//
// A fenced write is left to the end of its attachment, which answers all requests in their turn. Otherwise copies of
// two writes that passed each other on the way to the log would be answered in the wrong order.
func (d *Dispatcher) deliverOutcome(w *outcome) {
	if resentLater(w.Err) || fenced(w.Err) {
		return
	}
	d.serveReadsBefore(w)
	for o := d.sessions[attached{w.Session, w.Attachment}]; o != nil; o = o.next {
		// A client that gives up sends a void with the same number (X6 giving up): both requests get the outcome of the
		// number.
		for i := o.find(w.Number); i >= 0; i = o.find(w.Number) {
			p := o.items[i]
			if p.write.ReadsBefore {
				w.before.drop()
			}
			o.remove(d, i)
			d.answer(p, &Answer{Key: p.key, Stamp: w.At, Result: w.Result, Err: w.Err})
			d.advanceAfterPass(o)
		}
	}
}

// serveReadsBefore answers the reads that came before a write of their session, from the tree before the write (G3
// order in a session).
func (d *Dispatcher) serveReadsBefore(w *outcome) {
	for o := d.sessions[attached{w.Session, w.Attachment}]; o != nil; o = o.next {
		o.serveReads(d, o.find(w.Number), func(p *Request) { d.serveFrom(p, w.before.get(), w.At-1) })
	}
}

// fenced reports whether a write came after the end of its attachment (W3 attachment check).
func fenced(err error) bool {
	return errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrExpired)
}

// resentLater reports whether the pending table sends a write again that was refused with err.
func resentLater(err error) bool {
	var gap *tree.GapError
	var window *tree.WindowError
	return errors.As(err, &gap) || errors.As(err, &window) || errors.Is(err, session.ErrLimit)
}

// answerFromResults answers the writes whose results the dispatcher may have missed, from the state's kept results (W4
// answers from applied entries).
func (d *Dispatcher) answerFromResults() {
	for _, first := range d.sessions {
		for o := first; o != nil; o = o.next {
			o.answerFromResults(d)
		}
	}
}

func (o *sessionQueue) answerFromResults(d *Dispatcher) {
	applied := d.shown.applied(o.of.id)
	for i := 0; i < o.sent; {
		p := o.items[i]
		if p.kind == reading || p.write.Number > applied {
			i++
			continue
		}
		i -= o.serveReads(d, i, func(p *Request) { d.serveFrom(p, nil, 0) })
		o.remove(d, i)
		p.answerFromResult(d)
	}
	d.advanceAfterPass(o)
}
