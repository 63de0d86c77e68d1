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
		x.heard(i.Event)
	case i.Answer == ofRead:
		x.readAnswered(&i)
	case i.Answer == ofWrite:
		x.written(&i)
	default:
		x.added(i.Answer-ofOwed, i.Stamp)
	}
	x.tend()
	return true
}

// heard processes an event.
func (x sdk) heard(ev event) {
	c := &x.Client
	x.saw(ev.Stamp)
	if c.On == 0 {
		return
	}
	if x.owing() == 0 {
		told := ev.Stamp - 1 // another event of this stamp may follow (V4 resumed watches)
		if !x.Obeys(V4Below) {
			told = ev.Stamp
		}
		c.Told = max(c.Told, told)
	}
	all := hearing(ev)
	if ev.Stamp == end(ev.Stamp.index()) {
		all &^= lasting // a deletion that the node derived from the tree (V4)
	}
	for w := range c.Watch {
		e := &c.Watch[w]
		switch listens := e.Placed == 1 || e.Owed&e.Asking == 1; {
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
	x.asOnlooker().checkFired(w, ev)
	x.forget(w)
}

// happened processes an event for a lasting watch.
func (x sdk) happened(w int, ev event) {
	switch e := &x.Client.Watch[w]; {
	case e.Owed == 0:
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
		x.asOnlooker().checkTold(w, ev)
	}
}

// tellLost delivers a LOST to a lasting watch.
func (x sdk) tellLost(w int, s stamp) {
	e := &x.Client.Watch[w]
	if e.Sub == 1 && s > e.From {
		x.asOnlooker().checkLost(w, s)
	}
	if x.Obeys(I13Top) {
		e.Lost = max(e.Lost, s)
	}
}

// cameBack delivers the due events of a lasting watch, without those that it had.
func (x sdk) cameBack(w int) {
	e := &x.Client.Watch[w]
	if e.LostAt != 0 {
		x.tellLost(w, e.LostAt)
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
	x.toldUpTo(s)
	if x.Client.On == 0 {
		return
	}
	for w := range watchData {
		switch e := &x.Client.Watch[w]; {
		case e.Placed == 0 && e.Owed&e.Asking == 0:
		case e.Owed == 1:
			e.LostAt = max(e.LostAt, s)
		default:
			x.tellLost(w, s)
		}
	}
}

// added starts the watches of a question.
func (x sdk) added(which uint8, s stamp) {
	c := &x.Client
	if x.saw(s); x.Obeys(V5Answers) {
		x.toldUpTo(s)
	}
	if c.On == 0 {
		return
	}
	asked := c.Back
	if c.Live = 1; which == fresh {
		asked, c.News = c.News, 0
	} else {
		c.Back = 0
	}
	if c.Told == 0 {
		c.Told = s
	}
	for w := range c.Watch {
		e := &c.Watch[w]
		if !asked.has(w) {
			continue
		}
		e.Asking, e.Placed, e.Came = 0, 1, s
		x.order(e)
		if e.New == 1 {
			e.New, e.Sub, e.From = 0, 1, s
			e.Ghost = heard{Since: s, Last: s, Next: s.index() * 2}
		}
	}
	x.comeBack(asked)
}

// comeBack delivers due events once the node has answered for all watches: until then old events for other watches
// arrive.
func (x sdk) comeBack(answered kinds) {
	for w := range x.Client.Watch {
		if e := &x.Client.Watch[w]; e.Owed&(1-e.Placed) == 1 && x.Obeys(V4Together) {
			return
		}
	}
	for w := range x.Client.Watch {
		if e := &x.Client.Watch[w]; e.Owed&e.Placed == 1 && (answered.has(w) || x.Obeys(V4Together)) {
			x.cameBack(w)
			x.settled(w)
		}
	}
}

// readAnswered processes the answer to a read, which sets a one-shot.
func (x sdk) readAnswered(i *item) {
	x.Client.Out = 0
	if x.saw(i.Stamp); x.Obeys(V5Answers) {
		x.toldUpTo(i.Stamp)
	}
	x.asOnlooker().checkShown(i)
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
	e.Sub, e.From, e.Ghost = 1, s, heard{Since: end(index), Last: s, Next: index * 2}
	if c.Told == 0 {
		c.Told = s
	}
	return e
}

// written processes the answer to the client's write.
func (x sdk) written(i *item) {
	if x.saw(i.Stamp); x.Obeys(V5Answers) {
		x.toldUpTo(i.Stamp)
	}
	x.Client.Write = answered
	x.asOnlooker().checkWritten()
}

// tick sends the client the dispatcher's stamp (V5 stamps for idle watchers).
func (x sdk) tick() bool {
	c := &x.Conn
	if c.Node == 0 || c.Watching == 0 || !x.Obeys(V5) {
		return false
	}
	root := end(x.onNodes().dispatcher().Dispatched)
	if c.Feed.Len > 0 || root <= c.Feed.Told {
		return false
	}
	c.Feed.Told = root
	x.toldUpTo(root)
	return true
}

// alive answers a keep-alive (G4 stamps of answers).
func (x sdk) alive() bool {
	c := &x.Conn
	if c.Node == 0 || x.Client.On == 0 {
		return false
	}
	told := c.Feed.Told
	if !x.Obeys(G4Alive) {
		told = end(x.onNodes().dispatcher().Dispatched)
	}
	if told <= max(x.Client.Told, x.Client.Pending) {
		return false
	}
	x.toldUpTo(told)
	return true
}
