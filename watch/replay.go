package watch

import (
	"cmp"
	"slices"

	"holdfast/tree"
)

// missedEvents are the missed events of the one-shot watches of a [Resumption], in the order of their stamps.
type missedEvents struct {
	events    []missedEvent
	positions map[tree.Event]int // positions in events; used only while events are added
	byPath    map[string][]int   // positions in events
	next      int                // all events before this position are delivered
}

type missedEvent struct {
	event tree.Event
	kinds Kinds // 0 once delivered
}

// add adds a missed event for a watch of the kinds. Several watches with the same event get it once.
func (d *missedEvents) add(e tree.Event, kinds Kinds) {
	if at, ok := d.positions[e]; ok {
		d.events[at].kinds |= kinds
		return
	}
	if d.positions == nil {
		d.positions = map[tree.Event]int{}
	}
	d.positions[e] = len(d.events)
	d.events = append(d.events, missedEvent{event: e, kinds: kinds})
}

// sort puts the events in order. Call it after the last add.
func (d *missedEvents) sort() {
	d.positions = nil
	slices.SortStableFunc(d.events, func(a, b missedEvent) int { return cmp.Compare(a.event.Stamp, b.event.Stamp) })
	d.byPath = make(map[string][]int, len(d.events))
	for i, o := range d.events {
		d.byPath[o.event.Path] = append(d.byPath[o.event.Path], i)
	}
}

// markFired marks one-shot watches as fired by e, an event from the ring, and reports whether any fired. The client
// then gets no second event for them.
func (d *missedEvents) markFired(e tree.Event) (once bool) {
	for _, i := range d.byPath[e.Path] {
		o := &d.events[i]
		once = once || o.kinds&receivers(e.Kind) != 0
		o.kinds &^= receivers(e.Kind)
	}
	return once
}

// before calls f for the undelivered events with stamps below stamp.
func (d *missedEvents) before(stamp tree.Stamp, f func(Event)) {
	for ; d.next < len(d.events) && d.events[d.next].event.Stamp < stamp; d.next++ {
		if o := &d.events[d.next]; o.kinds != 0 {
			o.kinds = 0
			f(Event{Event: o.event, Once: true})
		}
	}
}

// rest calls f for all undelivered events.
func (d *missedEvents) rest(f func(Event)) { d.before(^tree.Stamp(0), f) }

// lastingWatches are the persistent and recursive watches of a [Resumption], by their paths.
type lastingWatches struct {
	kinds map[string]Kinds
	// recursiveAt marks the depths that have recursive watches.
	recursiveAt [tree.MaxDepth + 1]bool
	recursive   bool
	// delivered is the number of events at the beginning of the replay that earlier portions have delivered.
	delivered int
}

// add adds a watch if it is persistent or recursive.
func (l *lastingWatches) add(w Watch) {
	if w.Kind.OneShot() {
		return
	}
	l.kinds[w.Path] |= Of(w.Kind)
	if w.Kind == tree.WatchRecursive {
		l.recursive, l.recursiveAt[tree.Depth(w.Path)] = true, true
	}
}

// matches reports whether one of the watches matches an event.
func (l *lastingWatches) matches(e tree.Event) bool {
	if l.kinds[e.Path]&receivers(e.Kind) != 0 {
		return true
	}
	if e.Kind == tree.ChildrenChanged || !l.recursive {
		return false
	}
	depth := tree.Depth(e.Path)
	for path := tree.Parent(e.Path); path != ""; path = tree.Parent(path) {
		if depth--; l.recursiveAt[depth] && l.kinds[path]&recursive != 0 {
			return true
		}
	}
	return false
}

// replay calls f for the events of a change that match the watches, after the missed one-shot events of earlier
// changes.
func (l *lastingWatches) replay(c *tree.Change, principals []tree.Principal, missed *missedEvents,
	f func(Event),
) {
	send := func(e tree.Event, acl *tree.ACL) {
		if l.matches(e) && readable(acl, principals) {
			if l.delivered > 0 {
				l.delivered--
				missed.markFired(e)
				return
			}
			missed.before(e.Stamp, f)
			f(Event{Event: e, Once: missed.markFired(e)})
		}
	}
	send(eventOf(c), c.ACL)
	if e, ok := parentEventOf(c); ok {
		send(e, c.Parent)
	}
}
