package watch

import (
	"iter"

	"holdfast/tree"
)

// Portion calls f for a part of the missed events of a resumption's lasting watches, as many as fit, and registers
// nothing. It returns the end of this part, where the next portion or the resumption begins. Portion returns nil,
// without calling f, when all remaining events fit or the ring no longer has all of them; [Table.Resume] then delivers
// the rest.
//
// A resumption delivers all events at once, and a LOST replaces events that do not fit into a [Feed]. ZooKeeper's
// protocol has no LOST. Without portions, the node would disconnect a ZooKeeper client that has missed too many events;
// the client would come back and have missed the same events.
func (t *Table[C]) Portion(c *Connection[C], r Resumption, changes *TreeRing, fits func(tree.Event) bool,
	f func(Event),
) *tree.Portion {
	var lasting lastingWatches
	lasting.kinds, lasting.delivered = map[string]Kinds{}, r.Delivered.Events
	for _, w := range r.Watches {
		if checkWatch(w.Path, w.Kind) != nil {
			return nil // the resumption returns the error
		}
		lasting.add(w)
	}
	after := max(r.From, r.Delivered.Through)
	if len(lasting.kinds) == 0 || after > End(t.index) {
		return nil
	}
	between, ok := changes.concerning(&lasting, after, End(t.index))
	if !ok {
		return nil
	}
	part, all := lasting.first(between, c.principals, fits)
	if all || len(part) == 0 {
		return nil
	}
	sent := portionOf(part, r.Delivered, after)
	for _, e := range part {
		f(Event{Event: e})
	}
	return &sent
}

// first returns the first events of the changes for the watches, as many as fit, and reports whether these are all.
func (l *lastingWatches) first(between iter.Seq[*tree.Change], principals []tree.Principal, fits func(tree.Event) bool,
) (part []tree.Event, all bool) {
	all = true
	for change := range between {
		l.replay(change, principals, &missedEvents{}, func(e Event) {
			if all = all && fits(e.Event); all {
				part = append(part, e.Event)
			}
		})
		if !all {
			break
		}
	}
	return part, all
}

// portionOf returns the end of part, which follows the portion before.
func portionOf(part []tree.Event, before tree.Portion, after tree.Stamp) tree.Portion {
	last := part[len(part)-1].Stamp
	sent := tree.Portion{Through: last - 1}
	for i := len(part) - 1; i >= 0 && part[i].Stamp == last; i-- {
		sent.Events++
	}
	if sent.Events == len(part) { // earlier events may belong to the same change
		sent = tree.Portion{Through: after, Events: before.Events + len(part)}
	}
	return sent
}
