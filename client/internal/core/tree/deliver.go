package tree

import (
	"cmp"
	"slices"

	"holdfast/client/internal/core/conn"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// maxReplay bounds the events that an entry collects while it catches up. More events are lost, as for a slow reader
// (V6 LOST).
const maxReplay = 4096

// receiveEvents delivers the events of c.
func (m *Manager) receiveEvents(c *conn.Conn, news *holdfastv1.Events) {
	events, err := wire.EventsFrom(news)
	if err != nil {
		m.conns.Lost(c, err) // nothing that the node sends later can be relied on either
		return
	}
	w := &m.watches
	for _, ev := range events {
		m.conns.RecordStamp(ev.Stamp)
		if w.on != c {
			continue
		}
		if w.catchingUp == 0 {
			w.since = max(w.since, ev.Stamp-1) // another event of this stamp may follow (V4 resumed watches)
		}
		for _, e := range w.matching(ev) {
			if e.spec.Kind.OneShot() {
				m.fire(e, ev)
			} else {
				m.deliverOrKeep(e, ev)
			}
		}
	}
}

// matching returns the entries that an event is for.
func (w *watches) matching(ev tree.Event) (found []*entry) {
	add := func(path string, kinds ...tree.WatchKind) {
		for _, kind := range kinds {
			if e := w.all[tree.WatchSpec{Path: path, Kind: kind}]; e != nil {
				found = append(found, e)
			}
		}
	}
	// A one-shot watch that comes back learns at the end of an index, where no change is, that its entry has gone (V4
	// resumed watches). Lasting watches receive the change itself. A watch that waits for the entry to come has not
	// seen the entry.
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

// fire ends the one-shot watches of an entry with an event.
func (m *Manager) fire(e *entry, ev tree.Event) {
	if !e.receives() {
		return
	}
	w := &m.watches
	for _, s := range e.active {
		m.deliver(s, Delivery{Event: ev})
	}
	e.active, e.placed, e.askAgain = nil, false, e.catchingUp && e.pending
	w.caughtUp(e)
	switch {
	case len(e.starting) == 0:
		w.forget(e)
	case !e.pending:
		w.ask(e)
	}
}

// deliverOrKeep delivers an event to lasting watches, or keeps the event while they catch up: new and missed events
// then arrive mixed, and the node's answer says how to sort them.
func (m *Manager) deliverOrKeep(e *entry, ev tree.Event) {
	switch {
	case !e.receives():
	case !e.catchingUp:
		m.deliverEvent(e, ev)
	case e.placed && (ev.Stamp <= e.completeTo || slices.Contains(e.replay, ev)):
		// the event is for another watch that catches up; this entry has it
	case len(e.replay) < maxReplay:
		e.replay = append(e.replay, ev)
	default:
		e.replayLost = max(e.replayLost, e.replay[len(e.replay)-1].Stamp, ev.Stamp)
		e.replay = e.replay[:0]
	}
}

// deliverReplay delivers the events that an entry missed, without repeats. Events that a LOST covers are not delivered
// after it (I13 no step back).
func (m *Manager) deliverReplay(e *entry) {
	if e.replayLost != 0 {
		m.deliverLost(e, e.replayLost)
	}
	newest, delivered := e.newest, slices.Clone(e.delivered)
	for _, ev := range e.replay {
		again := slices.Index(delivered, ev)
		switch {
		case ev.Stamp < newest, ev.Stamp <= e.lost:
		case again >= 0:
			delivered = slices.Delete(delivered, again, again+1)
		default:
			m.deliverEvent(e, ev)
		}
	}
	e.replay, e.replayLost = nil, 0
}

// missed returns the events that arrived while e caught up, in the order of their stamps. Of events that came twice,
// because another watch needs them too, it returns the later copy, so that the last event of a path shows the path's
// newest state.
func (e *entry) missed() []tree.Event {
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

// deliverEvent delivers an event to lasting watches.
func (m *Manager) deliverEvent(e *entry, ev tree.Event) {
	if ev.Stamp > e.newest {
		e.newest, e.delivered = ev.Stamp, e.delivered[:0]
	}
	e.delivered = append(e.delivered, ev)
	for _, s := range e.active {
		if ev.Stamp > s.from {
			m.deliver(s, Delivery{Event: ev})
		}
	}
}

// deliverLost says to lasting watches that events up to a stamp may be missing. None of these events is delivered
// later.
func (m *Manager) deliverLost(e *entry, stamp tree.Stamp) {
	e.lost = max(e.lost, stamp)
	for _, s := range e.active {
		if stamp > s.from {
			m.deliver(s, Delivery{Event: tree.Event{Stamp: stamp}, Lost: true})
		}
	}
}

// eventsLost handles the news that events of lasting watches are missing up to a stamp (V6).
func (m *Manager) eventsLost(c *conn.Conn, stamp tree.Stamp) {
	m.DeliveredUpTo(c, stamp)
	if m.watches.on != c {
		return
	}
	for _, e := range m.watches.sorted() {
		switch {
		case e.spec.Kind.OneShot() || !e.receives():
		case e.catchingUp:
			e.replayLost = max(e.replayLost, stamp)
		default:
			m.deliverLost(e, stamp)
		}
	}
}

// DeliveredUpTo records that c has delivered all events up to a stamp (V5 stamps for idle watchers). Events that
// entries missed before arrive with the answer about these entries.
func (m *Manager) DeliveredUpTo(c *conn.Conn, stamp tree.Stamp) {
	if stamp == 0 {
		return
	}
	m.conns.RecordStamp(stamp)
	w := &m.watches
	if w.on != c {
		return
	}
	if w.catchingUp > 0 {
		w.pending = max(w.pending, stamp)
	} else if w.since > 0 {
		w.since = max(w.since, stamp)
	}
}
