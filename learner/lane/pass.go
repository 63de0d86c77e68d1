package lane

import (
	"errors"
	"iter"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Pass goes from the lane's state to the published one, if there is a newer one (G1): it tells each change on the way,
// and behind a command's events the answer if the command is a write of the lane's connections. Then the published
// state becomes the lane's, and requests that waited for it are served. It reports whether there was a newer one.
//
// The published state is read once, and before the rings. Without: a change that was published in between is fired for
// a tree that does not show it.
func (l *Lane) Pass() bool {
	now := *l.node.Hub.shown.Load()
	if now.Index == l.shown.Index && now.restores == l.shown.restores {
		l.end(seen)
		l.unblock()
		return false
	}
	from, to := watch.End(l.Index()), watch.End(now.Index)
	changes, whole := l.node.Hub.changes.Range(from, to)
	results, answered := l.node.Hub.results.Range(from, to)
	if now.restores != l.shown.restores { // what is above the snapshot is in the rings, and what it brought is not
		whole, answered = false, false
	}
	switch {
	case !whole:
		l.skip(now)
	case !answered:
		l.through(changes, func(func(*Wrote) bool) {})
		l.show(now)
	default:
		l.through(changes, results)
		l.show(now)
	}
	if whole && answered {
		l.end(seen)
	} else {
		l.end(missed) // first: what is kept may be of another attachment
		l.fromKept()
	}
	l.serveDue()
	l.unblock()
	return true
}

// serveDue serves what waited for the pass.
func (l *Lane) serveDue() {
	for _, o := range l.marked {
		o.marked = false
		l.advance(o)
	}
	clear(l.marked)
	l.marked = l.marked[:0]
	for p := l.due.reached(l.Index()); p != nil; p = l.due.reached(l.Index()) {
		l.retry(p)
	}
}

// later notes that an order is to be looked at once the pass has ended: until then the lane's tree is the old one.
func (l *Lane) later(o *order) {
	if !o.marked {
		o.marked = true
		l.marked = append(l.marked, o)
	}
}

// unblock serves the reads for which there is room again (G9), in the order in which each connection asked.
func (l *Lane) unblock() {
	rooms := l.node.Hub.rooms.Load()
	if !l.roomy.Swap(false) && rooms == l.rooms {
		return
	}
	l.rooms = rooms
	for c := range l.starving {
		c.unblock()
	}
}

func (c *Conn) unblock() {
	l := c.lane
	for len(c.blocked) > 0 {
		p := c.blocked[0]
		if p.blocked && !c.hasRoom() {
			return
		}
		c.blocked[0] = nil
		c.blocked = c.blocked[1:]
		if p.blocked { // not answered by another reason
			p.blocked = false
			l.retry(p)
		}
	}
	c.blocked = nil
	delete(l.starving, c)
}

// show makes a state the lane's.
func (l *Lane) show(now Published) {
	l.shown = now
	l.table.Advance(now.Index)
	l.stamp.Store(uint64(watch.End(now.Index)))
}

// through tells what is in the rings, in the order of the stamps: the events of a command, then its answer.
func (l *Lane) through(changes iter.Seq[*tree.Change], results iter.Seq[*Wrote]) {
	var own []*Wrote
	for w := range results {
		if l.sessions[attached{w.Session, w.Attachment}] != nil {
			own = append(own, w)
		}
	}
	for c := range changes {
		for len(own) > 0 && own[0].At < c.Stamp {
			l.wrote(own[0])
			own = own[1:]
		}
		l.table.Fire(c, fire)
	}
	for _, w := range own {
		l.wrote(w)
	}
}

func fire(to *watch.Connection[*Conn], e watch.Event) { to.Owner.event(e) }

// skip goes on at a state without the changes before it (V6): one-shot watches are judged by the tree, and connections
// with other watches are told LOST.
func (l *Lane) skip(now Published) {
	l.table.Skip(now.Index, now.Root, fire, func(c *watch.Connection[*Conn], first, last tree.Stamp) {
		c.Owner.lost(first, last)
	})
	l.show(now)
}

// wrote answers a write, unless it has been answered already: a write may be in the log more than once (X2). Clients
// never see that a write came too early, or that results wait: the queue sends it again (X7).
//
// A write that was fenced is left to the end of its attachment, which answers everything in its turn. Without: copies
// of two writes that passed each other on the way to the log are answered in the wrong order.
func (l *Lane) wrote(w *Wrote) {
	if again(w.Err) || fenced(w.Err) {
		return
	}
	for o := l.sessions[attached{w.Session, w.Attachment}]; o != nil; o = o.next {
		// A client that gives up sends a void with the same number (X6): both hear what became of the number.
		for i := o.find(w.Number); i >= 0; i = o.find(w.Number) {
			p := o.items[i]
			o.remove(l, i)
			l.answer(p, &Answer{Key: p.key, Stamp: w.At, Result: w.Result, Err: w.Err})
			l.later(o)
		}
	}
}

// fenced reports whether a write came after the end of its attachment (W3).
func fenced(err error) bool {
	return errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrExpired)
}

// again reports whether the queue sends a write again that was refused so.
func again(err error) bool {
	var gap *tree.GapError
	var window *tree.WindowError
	return errors.As(err, &gap) || errors.As(err, &window) || errors.Is(err, session.ErrLimit)
}

// fromKept answers the writes whose results the lane may have missed from what the state keeps (W4).
func (l *Lane) fromKept() {
	for _, first := range l.sessions {
		for o := first; o != nil; o = o.next {
			o.fromKept(l)
		}
	}
}

func (o *order) fromKept(l *Lane) {
	applied := l.shown.Kept.Applied(uint64(o.of.id))
	for i := 0; i < o.sent; {
		p := o.items[i]
		if p.write.Number > applied {
			i++
			continue
		}
		o.remove(l, i)
		p.answerKept(l)
	}
	if o.sent > 0 {
		l.node.Writes.Skipped(o.of.id, o.of.attachment, applied)
	}
	l.later(o)
}
