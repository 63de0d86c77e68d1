package watch

// The oracle compares the client's events with the log.

// place returns the place of the first change at or after a place that makes an event; places if there is none.
func (x oracle) place(from uint8, ev event) uint8 {
	for p := from; p < places; p++ {
		if c, at := x.at(p); at == ev.Stamp && c.Kind == ev.Kind && c.Path == ev.Path {
			return p
		}
	}
	return places
}

// missing returns the first change from one place up to another that a lasting watch matches, with a stamp above
// another; 0 if there is none.
func (x oracle) missing(w int, from, to uint8, above stamp) stamp {
	for p := from; p < to; p++ {
		c, at := x.at(p)
		if c.Kind != nothing && matching(event{at, c.Kind, c.Path}).has(w) && at > above {
			return at
		}
	}
	return 0
}

// checkEvent checks an event for a lasting watch (I11 no event missing, I13 no step back).
func (x oracle) checkEvent(w int, ev event) {
	g := &x.Client.Watch[w].Ghost
	x.Say("the watch %s receives %v", name(w), ev)
	if ev.Stamp < g.Last {
		x.Breaks(I13, "the watch has received %v before", g.Last)
	}
	if g.Last = max(g.Last, ev.Stamp); x.guessed(ev) {
		return
	}
	p := x.place(g.Next, ev)
	if p == places && g.Doubt == ev.Stamp && x.place(0, ev) < g.Next { // the first event after the second
		g.Doubt = 0
		return
	}
	if p == places {
		x.Breaks(I11, "the watch has received this change, or a later one, before")
		return
	}
	switch missed := x.missing(w, g.Next, p, max(g.Since, g.Lost)); missed {
	case 0:
	case ev.Stamp: // a later LOST has to cover the others of this stamp
		g.Doubt = missed
	default:
		x.Breaks(I11, "%v is missing", missed)
	}
	g.Next = p + 1
}

// guessed reports whether a dispatcher has derived an event from the tree, for a one-shot, because it has not seen the
// change (V4 resumed watches): it does not know a deletion's stamp, and an entry that was created again counts as set.
// A LOST covers the change.
func (x oracle) guessed(ev event) bool {
	if ev.Stamp == end(ev.Stamp.index()) {
		return true
	}
	return ev.Kind == dataSet && x.place(0, ev) == places &&
		x.place(0, event{ev.Stamp, created, ev.Path}) != places
}

// checkLost checks a LOST for a lasting watch.
func (x oracle) checkLost(w int, s stamp) {
	g := &x.Client.Watch[w].Ghost
	x.Say("the watch %s receives LOST up to %v", name(w), s)
	if s < g.Last {
		x.Breaks(I13, "the watch has received %v before", g.Last)
	}
	g.Lost, g.Last = max(g.Lost, s), max(g.Last, s)
}

// checkFired checks the event of a one-shot: a matching change happened since its registration.
func (x oracle) checkFired(w int, ev event) {
	x.Say("the watch %s fires: %v", name(w), ev)
	g := &x.Client.Watch[w].Ghost
	if !x.concerns(w, g.Since, max(ev.Stamp, g.Since)) {
		x.Breaks(I11, "nothing has happened above %v that the watch is for", g.Since)
	}
}

// concerns reports whether a change with a stamp above one and up to another matches a one-shot.
func (x oracle) concerns(w int, after, through stamp) (is bool) {
	x.between(after, through, func(c change, at stamp) {
		for _, e := range eventsOf(c, at) {
			is = is || matching(e).has(w)
		}
	})
	return is
}

// mustHaveFired reports whether a one-shot must have fired by now: an exists watch only if the entry exists (V4).
func (x oracle) mustHaveFired(w int) bool {
	g := &x.Client.Watch[w].Ghost
	if w == watchExists {
		v := x.viewAt(x.Logged)
		return v.exists[pathA] == 1
	}
	return x.concerns(w, g.Since, end(x.Logged))
}

// checkShown checks a read: no answer shows less than an earlier answer, and the events that it shows come first (I13).
func (x oracle) checkShown(i *item) {
	g := &x.Client.Ghost
	at := end(i.Root)
	x.Say("the read shows %v", at)
	if at < g.Shown {
		x.Breaks(I13, "the client has been shown %v before", g.Shown)
	}
	g.Shown = max(g.Shown, at)
	x.checkBefore(at)
}

// checkWritten checks the answer to the client's write, whatever stamp it has.
func (x oracle) checkWritten() {
	i := x.ownIndex()
	x.Say("the write is answered")
	x.Client.Ghost.Shown = max(x.Client.Ghost.Shown, end(i)) // a later read shows the write
	x.checkBefore(stamp(i<<2 | 1))
}

// checkBefore requires that lasting watches have received everything up to an answer's stamp.
func (x oracle) checkBefore(at stamp) {
	for w := range watchData {
		e := &x.Client.Watch[w]
		if e.Sub == 0 {
			continue
		}
		upTo := uint8(0)
		for p := range uint8(places) {
			if c, s := x.at(p); c.Kind != nothing && s <= at {
				upTo = p + 1
			}
		}
		if missed := x.missing(w, e.Ghost.Next, upTo, max(e.Ghost.Since, e.Ghost.Lost)); missed != 0 {
			x.Breaks(I13, "the watch %s has not received %v", name(w), missed)
		}
	}
}

// checkQuiescent checks a state in which nothing continues on its own.
func (x oracle) checkQuiescent() {
	c := &x.Client
	if c.Read|c.Out != 0 || c.Write == calling || c.CatchUp|c.Adding != 0 {
		x.Breaks(I18, "a request is never answered")
	}
	for w := range c.Watch {
		if c.Watch[w].Sub == 1 {
			x.checkWatch(w)
		}
	}
	if x.atClient().someWanted() && c.Since < x.onNodes().dispatcher().Start {
		x.Breaks(Resumable, "the client would resume from %v, and the ring starts at %v", c.Since,
			x.onNodes().dispatcher().Start)
	}
}

// checkWatch checks that a watch has received everything.
func (x oracle) checkWatch(w int) {
	g := &x.Client.Watch[w].Ghost
	if oneShot.has(w) {
		if x.mustHaveFired(w) {
			x.Breaks(I11, "the watch %s never fires", name(w))
		}
		return
	}
	missed := x.missing(w, g.Next, places, max(g.Since, g.Lost))
	if g.Doubt > g.Lost {
		missed = g.Doubt
	}
	if missed != 0 {
		x.Breaks(I11, "the watch %s never receives %v", name(w), missed)
	}
}
