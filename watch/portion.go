package watch

import (
	"iter"

	"holdfast/tree"
)

// Portion tells a part of what the lasting watches of a resumption are owed, as much as fits, and registers nothing. It
// returns how far that went, which the next portion, or the resumption, begins from. With nil all that is left fits:
// nothing was told, and [Table.Resume] tells it. So it does if the ring no longer has all of it.
//
// A resumption tells all at once, and what does not fit into a [Feed] becomes a LOST. A client of ZooKeeper has no word
// for that. Without portions, one that is owed more than fits is disconnected for it, comes back, and is owed the same.
func (t *Table[C]) Portion(c *Connection[C], r Resumption, changes *TreeRing, fits func(tree.Event) bool,
	f func(Event),
) *tree.Portion {
	var lasting lastingWatches
	lasting.kinds, lasting.told = map[string]Kinds{}, r.Told.Events
	for _, w := range r.Watches {
		if checkWatch(w.Path, w.Kind) != nil {
			return nil // the resumption says so
		}
		lasting.add(w)
	}
	after := max(r.From, r.Told.Through)
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
	told := portionOf(part, r.Told, after)
	for _, e := range part {
		f(Event{Event: e})
	}
	return &told
}

// first returns the first events that changes made for the watches, as many as fit, and whether those are all.
func (l *lastingWatches) first(between iter.Seq[*tree.Change], principals []tree.Principal, fits func(tree.Event) bool,
) (part []tree.Event, all bool) {
	all = true
	for change := range between {
		l.replay(change, principals, &debts{}, func(e Event) {
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

// portionOf returns how far events go, which follow those of a portion before.
func portionOf(part []tree.Event, before tree.Portion, after tree.Stamp) tree.Portion {
	last := part[len(part)-1].Stamp
	told := tree.Portion{Through: last - 1}
	for i := len(part) - 1; i >= 0 && part[i].Stamp == last; i-- {
		told.Events++
	}
	if told.Events == len(part) { // those before may be of the same change
		told = tree.Portion{Through: after, Events: before.Events + len(part)}
	}
	return told
}
