package watch

import "slices"

// How a dispatcher handles watches and reads.

// eventsOf returns the events of a change: for watchers of the entry, and for watchers of its parent.
func eventsOf(c change, at stamp) []event {
	all := []event{{at, c.Kind, c.Path}}
	if c.Kind != dataSet {
		all = append(all, event{at, children, pathRoot})
	}
	return all
}

// hearing returns the watches that an event is for.
func hearing(e event) (all kinds) {
	switch {
	case e.Kind == children:
		return 1 << watchChild
	case e.Path == pathB:
		return 1 << watchAll
	case e.Kind == created:
		return 1<<watchAll | 1<<watchA | 1<<watchExists
	default:
		return 1<<watchAll | 1<<watchA | 1<<watchData | 1<<watchExists
	}
}

// fire delivers a change to the connection (V2 each event once).
func (x serving) fire(c change, at stamp) {
	for _, e := range eventsOf(c, at) {
		x.fireEvent(e)
	}
}

func (x serving) fireEvent(e event) {
	found := x.Conn.Watching & hearing(e)
	if found == 0 {
		return
	}
	once := found & oneShot
	if x.Obeys(V2Once) {
		x.Conn.Watching &^= once
	}
	for times := range 2 {
		switch {
		case times == 1 && (x.Obeys(V2Each) || found&(found-1) == 0):
		case once != 0:
			x.keep(&x.Conn.Feed, e)
		default:
			x.tell(&x.Conn.Feed, e)
		}
	}
}

// debt is an event due to one-shots.
type debt struct {
	event event
	kinds kinds
}

type debts struct {
	owed [3]debt
	len  int
}

func (d *debts) add(e event, w int) {
	for i := range d.owed[:d.len] {
		if d.owed[i].event == e {
			d.owed[i].kinds |= 1 << w
			return
		}
	}
	d.owed[d.len] = debt{e, 1 << w}
	d.len++
}

// judged returns the events due to one-shots that were registered at after or before, as of the root of an index, in
// the order of the stamps, and the one-shots without a due event (V4 resumed watches).
func (x serving) judged(all kinds, after stamp, index uint8) (d debts, left kinds) {
	v := x.viewAt(index)
	for w := watchData; w < watches; w++ {
		if !all.has(w) {
			continue
		}
		if e, is := v.judge(w, after, end(index)); is && x.Obeys(V4Tree) {
			d.add(e, w)
		} else {
			left |= 1 << w
		}
	}
	slices.SortStableFunc(d.owed[:d.len], func(a, b debt) int { return int(a.event.Stamp) - int(b.event.Stamp) })
	return d, left
}

// judge returns the event due to a one-shot; false if there is none.
func (v *view) judge(w int, after, through stamp) (event, bool) {
	switch {
	case w == watchChild:
		return event{v.children, children, pathRoot}, v.children > after
	case w == watchExists:
		return event{v.created[pathA], created, pathA}, v.exists[pathA] == 1
	case v.exists[pathA] == 0:
		return event{through, deleted, pathA}, true
	default:
		return event{v.modified[pathA], dataSet, pathA}, v.modified[pathA] > after
	}
}

// settle reports whether an event from the ring ends one-shots that wait for it.
func (d *debts) settle(e event) (once bool) {
	for i := range d.owed[:d.len] {
		if o := &d.owed[i]; o.event.Path == e.Path {
			once = once || o.kinds&hearing(e) != 0
			o.kinds &^= hearing(e)
		}
	}
	return once
}

// before removes the next debt below a stamp.
func (d *debts) before(below stamp) (event, bool) {
	for i := range d.owed[:d.len] {
		if o := &d.owed[i]; o.kinds != 0 && o.event.Stamp < below {
			o.kinds = 0
			return o.event, true
		}
	}
	return event{}, false
}

// dispatcher returns the node of the connection.
func (x serving) dispatcher() *node { return &x.Node[x.Conn.Node-1] }

// serveAdd answers a question about watches (V4).
func (x serving) serveAdd(which uint8) bool {
	if x.Conn.Node == 0 || x.Conn.Add[which].Asked == 0 {
		return false
	}
	q, d := x.Conn.Add[which], x.dispatcher()
	if x.Obeys(V4Index) && max(q.Since, q.Seen).index() > d.Dispatched {
		return false
	}
	x.Conn.Add[which] = question{}
	if q.Since == 0 {
		x.Conn.Watching |= q.Asked
	} else {
		x.resume(d, q)
	}
	x.add(&x.Conn.Feed, item{Class: answers, Stamp: end(d.Dispatched), Answer: ofOwed + which})
	return true
}

// resume registers watches of a former connection, and delivers the due events.
func (x serving) resume(d *node, q question) {
	debts, left := x.judged(q.Asked&oneShot, q.Since, d.Dispatched)
	x.Conn.Watching |= q.Asked&lasting | left
	feed := &x.Conn.Feed
	rest := func(below stamp) {
		for e, ok := debts.before(below); ok; e, ok = debts.before(below) {
			x.keep(feed, e)
		}
	}
	replay := func(c change, at stamp) {
		e := event{at, c.Kind, c.Path}
		if hearing(e)&q.Asked&lasting == 0 {
			return
		}
		if rest(at); debts.settle(e) {
			x.keep(feed, e)
		} else {
			x.tell(feed, e)
		}
	}
	whole, after := true, q.Since
	if !x.Obeys(V4Start) {
		after = max(after, d.Start)
	}
	if q.Asked&lasting != 0 {
		whole = x.ring(d, after, end(d.Dispatched), replay)
	}
	if rest(^stamp(0)); !whole {
		x.add(feed, item{Class: losses, Low: q.Since + 1, Stamp: end(d.Dispatched)})
	}
}

// serveRead answers a read with a one-shot, in one critical section (G2 atomic reads).
func (x serving) serveRead() bool {
	q := x.Conn.Read
	if x.Conn.Node == 0 || q.Asked == 0 {
		return false
	}
	d := x.dispatcher()
	if x.Obeys(N4Seen) && q.Seen.index() > d.Dispatched || x.Conn.Later != 0 || x.Conn.Late != 0 {
		return false
	}
	x.Conn.Read = question{}
	root := d.Dispatched
	if !x.Obeys(G2Root) {
		root = d.Published
	}
	watch := x.found(q.Asked, root)
	if x.Obeys(G2Register) {
		x.Conn.Watching |= watch
	} else {
		x.Conn.Later = watch
	}
	if !x.Obeys(G2Place) {
		x.Conn.Late, x.Conn.LateOf = 1+root, q.Asked
		return true
	}
	x.answerRead(q.Asked, root)
	if !x.Obeys(V2Root) { // the changes of the dispatcher's root are above the registration, too
		x.between(end(d.Dispatched)-4, end(d.Dispatched), x.fire)
	}
	return true
}

// answerRead reserves the place of a read's answer (G4 stamps of answers).
func (x serving) answerRead(about kinds, root uint8) {
	at := end(root)
	if !x.Obeys(G4Read) {
		at = end(x.dispatcher().Published)
	}
	x.add(&x.Conn.Feed, item{Class: answers, Stamp: at, Answer: ofRead, About: uint8(about), Root: root})
}

// found returns the one-shot that a read of A or of the children sets.
func (x serving) found(asked kinds, index uint8) kinds {
	v := x.viewAt(index)
	if asked == 1<<watchData && v.exists[pathA] == 0 {
		return 1 << watchExists
	}
	return asked
}

// afterRead does the part that G2 does before.
func (x serving) afterRead() bool {
	switch c := &x.Conn; {
	case c.Later != 0:
		c.Watching, c.Later = c.Watching|c.Later, 0
	case c.Late != 0:
		about, root := c.LateOf, c.Late-1
		c.Late, c.LateOf = 0, 0
		x.answerRead(about, root)
	default:
		return false
	}
	return true
}

// serveWrite processes the client's write in its turn (G5 linearizable reads).
func (x serving) serveWrite() bool {
	c := &x.Conn
	if c.Node == 0 || c.Write != arrived {
		return false
	}
	d := x.dispatcher()
	if x.Obeys(G5) && c.Looked > d.Dispatched {
		return false
	}
	c.Write, x.Client.Taken = accepted, 1
	switch i := x.ownIndex(); {
	case i != 0 && i <= d.Dispatched:
		x.answerKept(d)
	case i != 0 && i <= c.Looked:
		c.Write = ignored
	}
	return true
}
