package watch

import "holdfast/test/model/search"

// The actions of nodes: the log, the ring, and the passes of dispatchers.

// apply applies the next log entry at a node: the ring first, and then the root (G1 order per connection).
func (x serving) apply(n int) bool {
	d := &x.Node[n]
	if d.Published == x.Logged {
		return false
	}
	d.Published++
	if !x.Obeys(G1Ring) { // readers of the root do not find the changes yet
		d.HoleFrom, d.HoleTo = d.Published-1, d.Published
	}
	x.trim(d)
	return true
}

// trim drops the oldest changes of a ring that has too many.
func (x serving) trim(d *node) {
	var held uint8
	var oldest stamp
	for {
		held, oldest = 0, 0
		x.between(d.Start, end(d.Published), func(_ change, at stamp) {
			if held++; oldest == 0 {
				oldest = at
			}
		})
		if held <= x.scope.Ring {
			return
		}
		d.Start = oldest
	}
}

// appends adds to a node's ring the changes that its root shows: only where the root comes first.
func (x serving) appends(n int) bool {
	d := &x.Node[n]
	if x.Obeys(G1Ring) || d.HoleTo == 0 {
		return false
	}
	d.HoleFrom, d.HoleTo = 0, 0
	return true
}

// restore replaces the state of a node by a snapshot (V3 ring of changes).
func (x serving) restore(n int) bool {
	d := &x.Node[n]
	if d.Published == x.Logged || !x.spend(Restores) {
		return false
	}
	x.starts(d, d.Published, x.Logged, V3Restore)
	d.Restored = 1
	return true
}

// restart restarts the process of a node (V3).
func (x serving) restart(n int) bool {
	d := &x.Node[n]
	if d.Published == 0 || !x.spend(Restarts) {
		return false
	}
	if x.Conn.on(n) {
		x.atClient().disconnect()
	}
	x.starts(d, 0, d.Published, V3Process)
	d.Dispatched, d.Restored = d.Published, 0
	return true
}

// starts sets the index of a node's state, without the changes above from in its ring.
func (x serving) starts(d *node, from, index uint8, rule search.Rule) {
	d.Published = index
	if x.Obeys(rule) {
		d.Start, d.HoleFrom, d.HoleTo = end(index), 0, 0
		return
	}
	d.HoleFrom, d.HoleTo = from, index
	x.trim(d)
}

// ring calls f for the changes of a node's ring with stamps above after, up to and including through; false if some are
// missing.
func (x serving) ring(d *node, after, through stamp, f func(c change, at stamp)) bool {
	if after < d.Start {
		return false
	}
	x.between(after, through, func(c change, at stamp) {
		if at.index() <= d.HoleFrom || at.index() > d.HoleTo {
			f(c, at)
		}
	})
	return true
}

// on reports whether the connection is to a node.
func (c *connection) on(n int) bool { return int(c.Node) == n+1 }

// pass makes the root of an index the dispatcher's (G1).
func (x serving) pass(n int, to uint8) bool {
	d := &x.Node[n]
	if to > d.Published || to <= d.Dispatched && (d.Restored == 0 || to < d.Dispatched) {
		return false
	}
	from, whole := end(d.Dispatched), d.Restored == 0
	if !x.Conn.on(n) {
		if !whole && to != d.Published {
			return false
		}
		d.Dispatched, d.Restored = to, 0
		return true
	}
	var p passing
	if whole {
		whole = x.ring(d, from, end(to), func(c change, at stamp) { p.add(c, at) })
	}
	switch {
	case whole:
		x.through(d, &p, to)
	case to != d.Published: // a dispatcher that skips continues at the newest root
		return false
	default:
		x.skip(d, to)
	}
	if d.Dispatched, d.Restored = to, 0; !x.Obeys(G1Root) {
		d.Dispatched = d.Published
	}
	if !whole && x.Obeys(W4Kept) {
		x.answerKept(d)
	}
	return true
}

// passing has the changes of a pass.
type passing struct {
	changes [places]change
	stamps  [places]stamp
	len     int
}

func (p *passing) add(c change, at stamp) {
	p.changes[p.len], p.stamps[p.len] = c, at
	p.len++
}

// through delivers changes in the order of the stamps: the events of a command, then its answer (G1).
func (x serving) through(d *node, p *passing, to uint8) {
	own, former := x.ownResult(d, to), end(d.Dispatched)
	for n := range p.len {
		at := p.stamps[n]
		if own != 0 && (own < at || own == at && !x.Obeys(G1Answer)) {
			x.wrote(own, former)
			own = 0
		}
		x.fire(p.changes[n], at)
	}
	if own != 0 {
		x.wrote(own, former)
	}
}

// ownResult returns the stamp of the client's write if the dispatcher answers it on the way to an index; otherwise 0.
func (x serving) ownResult(d *node, to uint8) stamp {
	i := x.ownIndex()
	if x.Conn.Write != accepted || i == 0 || i <= d.Dispatched || i > to || i <= x.Conn.AttachedAt {
		return 0
	}
	return stamp(i<<2 | 1)
}

// wrote answers the client's write (G4 stamps of answers). former is the stamp of the dispatcher's root before the
// pass.
func (x serving) wrote(at, former stamp) {
	if x.Conn.Write = 0; !x.Obeys(G4Write) {
		at = former
	}
	x.add(&x.Conn.Feed, item{Class: answers, Stamp: at, Answer: ofWrite})
}

// answerKept answers the client's write from the kept result (W4 answers from applied entries).
func (x serving) answerKept(d *node) {
	i := x.ownIndex()
	if x.Conn.Write < accepted || i == 0 || i > d.Dispatched {
		return
	}
	x.Conn.Write = 0
	x.add(&x.Conn.Feed, item{Class: answers, Stamp: stamp(i<<2 | 1), Answer: ofWrite})
}

// skip continues at a root without the changes before it (V6 LOST).
func (x serving) skip(d *node, to uint8) {
	lose := func() {
		if x.Conn.Watching&lasting != 0 && x.Obeys(V6Skip) {
			x.add(&x.Conn.Feed, item{Class: losses, Low: end(d.Dispatched) + 1, Stamp: end(to)})
		}
	}
	if x.Obeys(V6First) {
		lose()
	}
	if x.Obeys(V6Once) {
		due, _ := x.dueSince(x.Conn.Watching, end(d.Dispatched), to)
		for _, o := range due.all[:due.len] {
			x.Conn.Watching &^= o.kinds
			x.addOneShot(&x.Conn.Feed, o.event)
		}
	}
	if !x.Obeys(V6First) {
		lose()
	}
}
