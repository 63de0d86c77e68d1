package core

import (
	"cmp"
	"slices"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// maxReplay bounds the events that an owed watch collects before its node has answered. Beyond it they are lost, as for
// a slow reader (V6).
const maxReplay = 4096

// hear tells a watch something.
func (l *ledger) hear(w *Watch, h Heard) {
	h.Watch = w
	l.effects.Heard = append(l.effects.Heard, h)
}

// events takes what the watches of c are told.
func (a *watching) events(c *Conn, m *holdfastv1.Events) {
	events, err := wire.EventsFrom(m)
	if err != nil {
		a.lost(c, err) // what the node says next cannot be relied on either
		return
	}
	if a.forest == nil {
		return
	}
	w := &a.forest.watches
	for _, ev := range events {
		a.saw(ev.Stamp)
		if w.on != c {
			continue
		}
		if w.owing == 0 {
			w.told = max(w.told, ev.Stamp-1) // another event of this stamp may follow (V4)
		}
		for _, e := range w.matching(ev) {
			if e.spec.Kind.OneShot() {
				a.fire(e, ev)
			} else {
				a.happenedAt(e, ev)
			}
		}
	}
}

// matching returns the entries that an event is for.
func (w *watches) matching(ev tree.Event) (found []*watched) {
	add := func(path string, kinds ...tree.WatchKind) {
		for _, kind := range kinds {
			if e := w.all[tree.WatchSpec{Path: path, Kind: kind}]; e != nil {
				found = append(found, e)
			}
		}
	}
	// That an entry has gone is told to a one-shot that comes back at the end of an index, where no change is (V4):
	// lasting watches hear of the change itself. One that waits for the entry to come has not seen it.
	change := ev.Stamp.Position() != tree.MaxPosition
	if change {
		add(ev.Path, tree.WatchPersistent)
	}
	switch ev.Kind {
	case tree.EntryCreated:
		add(ev.Path, tree.WatchExists)
	case tree.DataChanged:
		add(ev.Path, tree.WatchData, tree.WatchExists)
	case tree.EntryDeleted:
		add(ev.Path, tree.WatchData, tree.WatchChild)
		if change {
			add(ev.Path, tree.WatchExists)
		}
	case tree.ChildrenChanged:
		add(ev.Path, tree.WatchChild)
		return found
	}
	if change && w.recursive > 0 {
		for path := ev.Path; path != ""; path = tree.Parent(path) {
			add(path, tree.WatchRecursive)
		}
	}
	return found
}

// listens reports whether the present node may have meant e with an event: it watches, or tells what it owes.
func (e *watched) listens() bool { return e.placed || e.owed && e.asking }

// fire ends the one-shots of an entry with an event.
func (a *watching) fire(e *watched, ev tree.Event) {
	if !e.listens() {
		return
	}
	w := &a.forest.watches
	for _, s := range e.subs {
		a.hear(s, Heard{Event: ev})
	}
	e.subs, e.placed, e.again = nil, false, e.owed && e.asking
	w.settled(e)
	switch {
	case len(e.news) == 0:
		w.forget(e)
	case !e.asking:
		w.ask(e)
	}
}

// happenedAt takes an event for lasting watches. While their node has not answered, events of this connection and what
// is owed come mixed, and are put in order with the answer.
func (a *watching) happenedAt(e *watched, ev tree.Event) {
	switch {
	case !e.listens():
	case !e.owed:
		a.deliver(e, ev)
	case e.placed && (ev.Stamp <= e.came || slices.Contains(e.replay, ev)):
		// another watch is owed it, and this one has it
	case len(e.replay) < maxReplay:
		e.replay = append(e.replay, ev)
	default:
		e.lostAt = max(e.lostAt, e.replay[len(e.replay)-1].Stamp, ev.Stamp)
		e.replay = e.replay[:0]
	}
}

// cameBack tells what an entry was owed, without what it had. What lies in a LOST is not told behind it (I13).
func (a *watching) cameBack(e *watched) {
	if e.lostAt != 0 {
		a.tellLost(e, e.lostAt)
	}
	top, had := e.top, slices.Clone(e.had)
	for _, ev := range e.replay {
		again := slices.Index(had, ev)
		switch {
		case ev.Stamp < top, ev.Stamp <= e.lost:
		case again >= 0:
			had = slices.Delete(had, again, again+1)
		default:
			a.deliver(e, ev)
		}
	}
	e.replay, e.lostAt = nil, 0
}

// missed returns the events that came while e was owed, in the order of their stamps. Those that came twice, because
// another watch heard of them too, stay once: the later one, so that the last event of a path says what has become of
// it.
func (e *watched) missed() []tree.Event {
	slices.SortStableFunc(e.replay, func(x, y tree.Event) int { return cmp.Compare(x.Stamp, y.Stamp) })
	if !e.mixed {
		return e.replay
	}
	left := make(map[tree.Event]int, len(e.replay))
	for _, ev := range e.replay {
		left[ev]++
	}
	return slices.DeleteFunc(e.replay, func(ev tree.Event) bool {
		left[ev]--
		return left[ev] > 0
	})
}

// deliver tells an event to lasting watches.
func (a *watching) deliver(e *watched, ev tree.Event) {
	if ev.Stamp > e.top {
		e.top, e.had = ev.Stamp, e.had[:0]
	}
	e.had = append(e.had, ev)
	for _, s := range e.subs {
		if ev.Stamp > s.from {
			a.hear(s, Heard{Event: ev})
		}
	}
}

// tellLost tells lasting watches that events up to a stamp may be missing. None of these is told any more.
func (l *ledger) tellLost(e *watched, stamp tree.Stamp) {
	e.lost = max(e.lost, stamp)
	for _, s := range e.subs {
		if stamp > s.from {
			l.hear(s, Heard{Event: tree.Event{Stamp: stamp}, Lost: true})
		}
	}
}

// eventsLost takes the node's word that events of lasting watches are missing (V6).
func (a *watching) eventsLost(c *Conn, stamp tree.Stamp) {
	a.toldUpTo(c, stamp)
	if a.forest == nil || a.forest.watches.on != c {
		return
	}
	for _, e := range a.forest.watches.sorted() {
		switch {
		case e.spec.Kind.OneShot() || !e.listens():
		case e.owed:
			e.lostAt = max(e.lostAt, stamp)
		default:
			a.tellLost(e, stamp)
		}
	}
}

// toldUpTo takes the node's word that all events up to a stamp were told (V5). What is owed was not, while the node has
// not answered.
func (a *watching) toldUpTo(c *Conn, stamp tree.Stamp) {
	if stamp == 0 {
		return
	}
	a.saw(stamp)
	if a.forest == nil || a.forest.watches.on != c {
		return
	}
	if w := &a.forest.watches; w.owing > 0 {
		w.pending = max(w.pending, stamp)
	} else if w.told > 0 {
		w.told = max(w.told, stamp)
	}
}
