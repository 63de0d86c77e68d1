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

// matching returns the watches that an event is for.
func matching(e event) (all kinds) {
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
	found := x.Conn.Watching & matching(e)
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
			x.addOneShot(&x.Conn.Feed, e)
		default:
			x.addEvent(&x.Conn.Feed, e)
		}
	}
}

// dueEvent is an event due to one-shots.
type dueEvent struct {
	event event
	kinds kinds
}

type dueEvents struct {
	all [3]dueEvent
	len int
}

func (d *dueEvents) add(e event, w int) {
	for i := range d.all[:d.len] {
		if d.all[i].event == e {
			d.all[i].kinds |= 1 << w
			return
		}
	}
	d.all[d.len] = dueEvent{e, 1 << w}
	d.len++
}

// dueSince returns the events due to one-shots that were registered at after or before, as of the root of an index, in
// the order of the stamps, and the one-shots without a due event (V4 resumed watches).
func (x serving) dueSince(all kinds, after stamp, index uint8) (d dueEvents, left kinds) {
	v := x.viewAt(index)
	for w := watchData; w < watches; w++ {
		if !all.has(w) {
			continue
		}
		if e, is := v.due(w, after, end(index)); is && x.Obeys(V4Tree) {
			d.add(e, w)
		} else {
			left |= 1 << w
		}
	}
	slices.SortStableFunc(d.all[:d.len], func(a, b dueEvent) int { return int(a.event.Stamp) - int(b.event.Stamp) })
	return d, left
}

// due returns the event due to a one-shot; false if there is none.
func (v *view) due(w int, after, through stamp) (event, bool) {
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

// markFired marks the one-shots that an event from the ring ends as fired, and reports whether there are any.
func (d *dueEvents) markFired(e event) (once bool) {
	for i := range d.all[:d.len] {
		if o := &d.all[i]; o.event.Path == e.Path {
			once = once || o.kinds&matching(e) != 0
			o.kinds &^= matching(e)
		}
	}
	return once
}

// before removes the next event below a stamp.
func (d *dueEvents) before(below stamp) (event, bool) {
	for i := range d.all[:d.len] {
		if o := &d.all[i]; o.kinds != 0 && o.event.Stamp < below {
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
	if x.Conn.Node == 0 || x.Conn.Add[which].Watches == 0 {
		return false
	}
	q, d := x.Conn.Add[which], x.dispatcher()
	if x.Obeys(V4Index) && max(q.Since, q.Seen).index() > d.Dispatched {
		return false
	}
	x.Conn.Add[which] = question{}
	if q.Since == 0 {
		x.Conn.Watching |= q.Watches
	} else {
		x.resume(d, q)
	}
	x.add(&x.Conn.Feed, item{Class: answers, Stamp: end(d.Dispatched), Answer: ofCatchUp + which})
	return true
}

// resume registers watches of a former connection, and delivers the due events.
func (x serving) resume(d *node, q question) {
	due, left := x.dueSince(q.Watches&oneShot, q.Since, d.Dispatched)
	x.Conn.Watching |= q.Watches&lasting | left
	feed := &x.Conn.Feed
	rest := func(below stamp) {
		for e, ok := due.before(below); ok; e, ok = due.before(below) {
			x.addOneShot(feed, e)
		}
	}
	replay := func(c change, at stamp) {
		e := event{at, c.Kind, c.Path}
		if matching(e)&q.Watches&lasting == 0 {
			return
		}
		if rest(at); due.markFired(e) {
			x.addOneShot(feed, e)
		} else {
			x.addEvent(feed, e)
		}
	}
	whole, after := true, q.Since
	if !x.Obeys(V4Start) {
		after = max(after, d.Start)
	}
	if q.Watches&lasting != 0 {
		whole = x.ring(d, after, end(d.Dispatched), replay)
	}
	if rest(^stamp(0)); !whole {
		x.add(feed, item{Class: losses, Low: q.Since + 1, Stamp: end(d.Dispatched)})
	}
}

// serveRead answers a read with a one-shot, in one critical section (G2 atomic reads).
func (x serving) serveRead() bool {
	q := x.Conn.Read
	if x.Conn.Node == 0 || q.Watches == 0 {
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
	watch := x.found(q.Watches, root)
	if x.Obeys(G2Register) {
		x.Conn.Watching |= watch
	} else {
		x.Conn.Later = watch
	}
	if !x.Obeys(G2Place) {
		x.Conn.Late, x.Conn.LateOf = 1+root, q.Watches
		return true
	}
	x.answerRead(q.Watches, root)
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
func (x serving) found(requested kinds, index uint8) kinds {
	v := x.viewAt(index)
	if requested == 1<<watchData && v.exists[pathA] == 0 {
		return 1 << watchExists
	}
	return requested
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
	if x.Obeys(G5) && c.AttachedAt > d.Dispatched {
		return false
	}
	c.Write, x.Client.Accepted = accepted, 1
	switch i := x.ownIndex(); {
	case i != 0 && i <= d.Dispatched:
		x.answerKept(d)
	case i != 0 && i <= c.AttachedAt:
		c.Write = ignored
	}
	return true
}
