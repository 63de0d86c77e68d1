package watch

import "slices"

// How the client handles its node's messages.

// receive processes the node's next message.
func (x sdk) receive() bool {
	if x.Conn.Node == 0 {
		return false
	}
	i, ok := x.onNodes().next(&x.Conn.Feed, end(x.onNodes().dispatcher().Dispatched))
	if !ok {
		return false
	}
	switch {
	case i.Class == losses:
		x.Say("LOST up to %v", i.Stamp)
		x.lost(i.Stamp)
	case i.Class != answers:
		x.Say("%v", i.Event)
		x.receiveEvent(i.Event)
	case i.Answer == ofRead:
		x.readAnswered(&i)
	case i.Answer == ofWrite:
		x.written(&i)
	default:
		x.added(i.Answer-ofCatchUp, i.Stamp)
	}
	x.sendPending()
	return true
}

// receiveEvent processes an event.
func (x sdk) receiveEvent(ev event) {
	c := &x.Client
	x.saw(ev.Stamp)
	if c.On == 0 {
		return
	}
	if x.catchingUp() == 0 {
		delivered := ev.Stamp - 1 // another event of this stamp may follow (V4 resumed watches)
		if !x.Obeys(V4Below) {
			delivered = ev.Stamp
		}
		c.Since = max(c.Since, delivered)
	}
	all := matching(ev)
	if ev.Stamp == end(ev.Stamp.index()) {
		all &^= lasting // a deletion that the node derived from the tree (V4)
	}
	for w := range c.Watch {
		e := &c.Watch[w]
		switch listens := e.Placed == 1 || e.CatchingUp&e.Pending == 1; {
		case !all.has(w) || !listens:
		case oneShot.has(w):
			x.fired(w, ev)
		default:
			x.happened(w, ev)
		}
	}
}

// fired ends a one-shot.
func (x sdk) fired(w int, ev event) {
	x.asOracle().checkFired(w, ev)
	x.forget(w)
}

// happened processes an event for a lasting watch.
func (x sdk) happened(w int, ev event) {
	switch e := &x.Client.Watch[w]; {
	case e.CatchingUp == 0:
		x.deliver(w, ev)
	case e.Placed == 1 && x.Obeys(V4Mixed) && (ev.Stamp <= e.Came || slices.Contains(e.Replay[:e.Replays], ev)):
		// for another watch, and this watch has had it
	case e.Replays < x.scope.Replay:
		e.Replay[e.Replays] = ev
		e.Replays++
	default:
		e.LostAt = max(e.LostAt, e.Replay[e.Replays-1].Stamp, ev.Stamp)
		e.Replay, e.Replays = [maxReplay]event{}, 0
	}
}

// deliver delivers an event to a lasting watch.
func (x sdk) deliver(w int, ev event) {
	e := &x.Client.Watch[w]
	if ev.Stamp > e.Top {
		e.Top, e.Had = ev.Stamp, [maxHad]event{}
	}
	if free := slices.Index(e.Had[:], event{}); free >= 0 {
		e.Had[free] = ev
	}
	if e.Sub == 1 && ev.Stamp > e.From {
		x.asOracle().checkEvent(w, ev)
	}
}

// deliverLost delivers a LOST to a lasting watch.
func (x sdk) deliverLost(w int, s stamp) {
	e := &x.Client.Watch[w]
	if e.Sub == 1 && s > e.From {
		x.asOracle().checkLost(w, s)
	}
	if x.Obeys(I13Top) {
		e.Lost = max(e.Lost, s)
	}
}

// deliverReplay delivers the due events of a lasting watch, without those that it had.
func (x sdk) deliverReplay(w int) {
	e := &x.Client.Watch[w]
	if e.LostAt != 0 {
		x.deliverLost(w, e.LostAt)
	}
	top, had := e.Top, e.Had
	for _, ev := range e.Replay[:e.Replays] {
		again := slices.Index(had[:], ev)
		switch {
		case ev.Stamp <= max(e.Lost, e.LostAt) && x.Obeys(I13Lost):
		case ev.Stamp < top && x.Obeys(V4Had):
		case again >= 0 && x.Obeys(V4Had):
			had[again] = event{}
		default:
			x.deliver(w, ev)
		}
	}
	e.Replay, e.Replays, e.LostAt = [maxReplay]event{}, 0, 0
}

// order sorts the events that came while a watch waited for due events by their stamps, each once.
func (x sdk) order(e *watched) {
	all := make([]event, 0, maxReplay)
	all = append(all, e.Replay[:e.Replays]...)
	for i := 1; i < len(all) && x.Obeys(V4Sorts); i++ { // stable, and without an allocation
		for j := i; j > 0 && all[j].Stamp < all[j-1].Stamp; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	e.Replay, e.Replays = [maxReplay]event{}, 0
	for i, ev := range all {
		if e.Mixed == 1 && x.Obeys(V4Mixed) && slices.Contains(all[i+1:], ev) {
			continue
		}
		e.Replay[e.Replays] = ev
		e.Replays++
	}
}

// lost processes a LOST of the node for lasting watches (V6 LOST).
func (x sdk) lost(s stamp) {
	x.deliveredUpTo(s)
	if x.Client.On == 0 {
		return
	}
	for w := range watchData {
		switch e := &x.Client.Watch[w]; {
		case e.Placed == 0 && e.CatchingUp&e.Pending == 0:
		case e.CatchingUp == 1:
			e.LostAt = max(e.LostAt, s)
		default:
			x.deliverLost(w, s)
		}
	}
}

// added starts the watches of a question.
func (x sdk) added(which uint8, s stamp) {
	c := &x.Client
	if x.saw(s); x.Obeys(V5Answers) {
		x.deliveredUpTo(s)
	}
	if c.On == 0 {
		return
	}
	requested := c.CatchUp
	if c.Live = 1; which == newWatches {
		requested, c.Adding = c.Adding, 0
	} else {
		c.CatchUp = 0
	}
	if c.Since == 0 && x.someWanted() { // the watch may have ended before the answer
		c.Since = s
	}
	for w := range c.Watch {
		e := &c.Watch[w]
		if !requested.has(w) {
			continue
		}
		e.Pending, e.Placed, e.Came = 0, 1, s
		x.order(e)
		if e.New == 1 {
			e.New, e.Sub, e.From = 0, 1, s
			e.Ghost = notes{Since: s, Last: s, Next: s.index() * 2}
		}
	}
	x.deliverReplays(requested)
}

// deliverReplays delivers due events once the node has answered for all watches: until then old events for other
// watches arrive.
func (x sdk) deliverReplays(answered kinds) {
	for w := range x.Client.Watch {
		if e := &x.Client.Watch[w]; e.CatchingUp&(1-e.Placed) == 1 && x.Obeys(V4Together) {
			return
		}
	}
	for w := range x.Client.Watch {
		if e := &x.Client.Watch[w]; e.CatchingUp&e.Placed == 1 && (answered.has(w) || x.Obeys(V4Together)) {
			x.deliverReplay(w)
			x.caughtUp(w)
		}
	}
}

// readAnswered processes the answer to a read, which sets a one-shot.
func (x sdk) readAnswered(i *item) {
	x.Client.Out = 0
	if x.saw(i.Stamp); x.Obeys(V5Answers) {
		x.deliveredUpTo(i.Stamp)
	}
	x.asOracle().checkShown(i)
	first := !x.someWanted()
	e := x.watchSet(kinds(i.About), i.Root, i.Stamp)
	if x.Client.On == 0 && first {
		x.moveTo()
	}
	e.Queued, e.Placed, x.Client.Live = 0, 1, 1
}

// watchSet starts the one-shot that a read of the root of an index has set, and returns it.
func (x sdk) watchSet(about kinds, index uint8, s stamp) *watched {
	c := &x.Client
	found := x.onNodes().found(about, index)
	w := watchData
	for !found.has(w) {
		w++
	}
	e := &c.Watch[w]
	e.Sub, e.From, e.Ghost = 1, s, notes{Since: end(index), Last: s, Next: index * 2}
	if c.Since == 0 {
		c.Since = s
	}
	return e
}

// written processes the answer to the client's write.
func (x sdk) written(i *item) {
	if x.saw(i.Stamp); x.Obeys(V5Answers) {
		x.deliveredUpTo(i.Stamp)
	}
	x.Client.Write = answered
	x.asOracle().checkWritten()
}

// tick sends the client the dispatcher's stamp (V5 stamps for idle watchers).
func (x sdk) tick() bool {
	c := &x.Conn
	if c.Node == 0 || c.Watching == 0 || !x.Obeys(V5) {
		return false
	}
	root := end(x.onNodes().dispatcher().Dispatched)
	if c.Feed.Len > 0 || root <= c.Feed.Delivered {
		return false
	}
	c.Feed.Delivered = root
	x.deliveredUpTo(root)
	return true
}

// alive answers a keep-alive (G4 stamps of answers).
func (x sdk) alive() bool {
	c := &x.Conn
	if c.Node == 0 || x.Client.On == 0 {
		return false
	}
	delivered := c.Feed.Delivered
	if !x.Obeys(G4Alive) {
		delivered = end(x.onNodes().dispatcher().Dispatched)
	}
	if delivered <= max(x.Client.Since, x.Client.Pending) {
		return false
	}
	x.deliveredUpTo(delivered)
	return true
}
