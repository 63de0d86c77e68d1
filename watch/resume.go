package watch

import (
	"fmt"

	"holdfast/session"
	"holdfast/tree"
)

// View is the root of the tree that a lane serves reads from.
type View interface {
	// Stat returns what is known of the entry at path; false if there is none.
	Stat(path string) (tree.Stat, bool)
	// Effective returns the access list in force at path, or, if there is no such entry, the one that it would inherit.
	Effective(path string) tree.ACL
}

// Watch is a watch that a client names.
type Watch struct {
	Path string
	Kind tree.WatchKind
}

// Resumption is what a client brings to go on where it was (V4).
type Resumption struct {
	// From is the highest stamp that the client was told: the highest Told of a [Sent].
	From    tree.Stamp
	Watches []Watch
	// Told is how far lasting watches were told already, by [Table.Portion].
	Told tree.Portion
}

// Resume registers the watches that a client had on another connection, and calls f for the events that they are owed
// since (V4), in the order of their stamps. view and changes are those of the lane, whose root is that of
// [Table.Index].
//
// One-shot watches are judged by the tree (W-07): see [judge]. For persistent and recursive ones, the ring has the
// changes. If it no longer has all of them, f is called for one-shots only, and lost is true: the caller then tells
// LOST{End(Index)}, by [Feed.Lose] from From + 1. The client takes no stamp that it is told for From before it has the
// answer to its request, which comes behind all events: until then a broken connection leaves some of them untold.
//
// The error is one of [Table.Add], and no watch is registered; or [session.ErrLagging] if the client has seen more than
// the lane.
func (t *Table[C]) Resume(c *Connection[C], r Resumption, view View, changes *TreeRing,
	f func(Event),
) (lost bool, err error) {
	lane := End(t.index)
	if r.From > lane {
		return false, fmt.Errorf("resume watches from %v, lane is at %v: %w", r.From, lane, session.ErrLagging)
	}
	owed, lasting, err := t.register(c, r, view)
	if err != nil {
		return false, err
	}
	if len(lasting.kinds) > 0 {
		lasting.told = r.Told.Events
		between, ok := changes.concerning(&lasting, max(r.From, r.Told.Through), lane)
		if ok {
			for change := range between {
				lasting.replay(change, c.principals, &owed, f)
			}
		}
		lost = !ok
	}
	owed.rest(f)
	return lost, nil
}

// register adds all watches that are owed nothing yet, or none. It returns the one-shots that are owed an event
// instead, and the lasting watches.
func (t *Table[C]) register(c *Connection[C], r Resumption, view View) (owed debts, lasting lastingWatches, err error) {
	lasting.kinds = map[string]Kinds{}
	added := make([]Watch, 0, len(r.Watches))
	for _, w := range r.Watches {
		if err := checkWatch(w.Path, w.Kind); err != nil {
			return debts{}, lastingWatches{}, t.takeBack(c, added, err)
		}
		if w.Kind.OneShot() {
			e, ok := judge(w, span{r.From, End(t.index)}, view)
			if ok && view.Effective(w.Path).Grants(tree.Read, c.principals) {
				owed.add(e, Of(w.Kind))
				continue
			}
		}
		isNew, err := t.add(c, w.Path, w.Kind)
		if err != nil {
			return debts{}, lastingWatches{}, t.takeBack(c, added, err)
		}
		if isNew {
			added = append(added, w)
		}
		lasting.add(w)
	}
	owed.sort()
	return owed, lasting, nil
}

// takeBack removes watches that were just added, and returns err.
func (t *Table[C]) takeBack(c *Connection[C], added []Watch, err error) error {
	for _, w := range added {
		t.Remove(c, w.Path, Of(w.Kind))
	}
	return err
}

// span is the stamps above after, up to and with through.
type span struct{ after, through tree.Stamp }

// judge returns the event that a one-shot watch is owed that was registered at or before the span; false if it is
// owed none (V4, W-07). A data or child watch was registered on an entry that existed, an exists watch on one that
// did not. The stamp of a deletion is unknown: it is told as the span's last, which is the view's.
//
// What was created and deleted since, and is gone as before, shows no difference to an exists watch.
func judge(w Watch, away span, view View) (tree.Event, bool) {
	stat, is := view.Stat(w.Path)
	e := tree.Event{Path: w.Path}
	switch {
	case w.Kind == tree.WatchExists:
		e.Kind, e.Stamp = tree.EntryCreated, stat.Created
		return e, is
	case !is:
		e.Kind, e.Stamp = tree.EntryDeleted, away.through
		return e, true
	case w.Kind == tree.WatchChild:
		e.Kind, e.Stamp = tree.ChildrenChanged, stat.ChildrenModified
	default:
		e.Kind, e.Stamp = tree.DataChanged, stat.Modified
	}
	return e, e.Stamp > away.after
}
