package watch

import (
	"cmp"
	"slices"

	"holdfast/tree"
)

// debts are the events that one-shot watches of a [Resumption] are owed, in the order of their stamps.
type debts struct {
	owed   []debt
	places map[tree.Event]int // in owed, while events are added
	byPath map[string][]int   // places in owed
	next   int                // all before are settled
}

type debt struct {
	event tree.Event
	kinds Kinds // none is left of a settled one
}

// add notes an event that a watch of the kinds is owed. Watches that are owed the same one are told once.
func (d *debts) add(e tree.Event, kinds Kinds) {
	if at, ok := d.places[e]; ok {
		d.owed[at].kinds |= kinds
		return
	}
	if d.places == nil {
		d.places = map[tree.Event]int{}
	}
	d.places[e] = len(d.owed)
	d.owed = append(d.owed, debt{event: e, kinds: kinds})
}

// sort puts the events in order. Nothing is added afterwards.
func (d *debts) sort() {
	d.places = nil
	slices.SortStableFunc(d.owed, func(a, b debt) int { return cmp.Compare(a.event.Stamp, b.event.Stamp) })
	d.byPath = make(map[string][]int, len(d.owed))
	for i, o := range d.owed {
		d.byPath[o.event.Path] = append(d.byPath[o.event.Path], i)
	}
}

// settle reports whether an event from the ring ends one-shot watches that are owed one. They are then owed none: the
// client has heard of the change.
func (d *debts) settle(e tree.Event) (once bool) {
	for _, i := range d.byPath[e.Path] {
		o := &d.owed[i]
		once = once || o.kinds&hearing(e.Kind) != 0
		o.kinds &^= hearing(e.Kind)
	}
	return once
}

// before calls f for the events with stamps below stamp that are still owed.
func (d *debts) before(stamp tree.Stamp, f func(Event)) {
	for ; d.next < len(d.owed) && d.owed[d.next].event.Stamp < stamp; d.next++ {
		if o := &d.owed[d.next]; o.kinds != 0 {
			o.kinds = 0
			f(Event{Event: o.event, Once: true})
		}
	}
}

// rest calls f for all events that are still owed.
func (d *debts) rest(f func(Event)) { d.before(^tree.Stamp(0), f) }

// lastingWatches are the persistent and recursive watches of a [Resumption], by their paths.
type lastingWatches struct {
	kinds map[string]Kinds
	// recursiveAt says at which depths there are recursive ones.
	recursiveAt [tree.MaxDepth + 1]bool
	recursive   bool
	// told counts the events that were told already of those that are replayed, the first ones.
	told int
}

// add adds a watch, if it is a lasting one.
func (l *lastingWatches) add(w Watch) {
	if w.Kind.OneShot() {
		return
	}
	l.kinds[w.Path] |= Of(w.Kind)
	if w.Kind == tree.WatchRecursive {
		l.recursive, l.recursiveAt[tree.Depth(w.Path)] = true, true
	}
}

// hear reports whether one of the watches hears of an event.
func (l *lastingWatches) hear(e tree.Event) bool {
	if l.kinds[e.Path]&hearing(e.Kind) != 0 {
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

// replay calls f for the events that a change made for the watches, behind what is owed for changes before it.
func (l *lastingWatches) replay(c *tree.Change, principals []tree.Principal, owed *debts,
	f func(Event),
) {
	tell := func(e tree.Event, acl *tree.ACL) {
		if l.hear(e) && readable(acl, principals) {
			if l.told > 0 {
				l.told--
				owed.settle(e)
				return
			}
			owed.before(e.Stamp, f)
			f(Event{Event: e, Once: owed.settle(e)})
		}
	}
	tell(eventOf(c), c.ACL)
	if e, ok := parentEventOf(c); ok {
		tell(e, c.Parent)
	}
}
