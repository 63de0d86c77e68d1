package watch

import (
	"fmt"

	"holdfast/session"
	"holdfast/tree"
)

// View is the root of the tree from which a dispatcher serves reads.
type View interface {
	// Stat returns the stat of the entry at path; false if there is no entry.
	Stat(path string) (tree.Stat, bool)
	// Effective returns the access list in force at path, or, without an entry there, the list that a new entry would
	// inherit.
	Effective(path string) tree.ACL
}

// Watch is a watch that a client names.
type Watch struct {
	Path string
	Kind tree.WatchKind
}

// Resumption is a client's request to restore its watches and continue after a stamp (V4 resumed watches).
type Resumption struct {
	// From is the highest stamp up to which the client has all events: the highest Delivered of a [Sent].
	From    tree.Stamp
	Watches []Watch
	// Delivered is the end of the events of lasting watches that [Table.Portion] has delivered.
	Delivered tree.Portion
}

// Resume registers the watches that a client had on another connection, and calls f for the events that the client has
// missed (V4), in the order of their stamps. view and changes are the dispatcher's, and view is the root of
// [Table.Index].
//
// For one-shot watches the tree shows which events the client has missed (W-07). For persistent and recursive watches
// the ring has the changes. If the ring no longer has all of them, Resume calls f only for one-shot watches and returns
// lost = true: the caller then sends LOST{End(Index)}, by [Feed.Lose] from From + 1. The client must not use a later
// stamp as From before it has the answer to its request, which comes behind all events: a connection that breaks before
// leaves some events undelivered.
//
// The error is an error of [Table.Add], or [session.ErrLagging] if the client has seen more than the dispatcher. With
// an error, Resume registers no watch.
func (t *Table[C]) Resume(c *Connection[C], r Resumption, view View, changes *TreeRing,
	f func(Event),
) (lost bool, err error) {
	root := End(t.index)
	if r.From > root {
		return false, fmt.Errorf("resume watches from %v, dispatcher is at %v: %w", r.From, root, session.ErrLagging)
	}
	missed, lasting, err := t.register(c, r, view)
	if err != nil {
		return false, err
	}
	if len(lasting.kinds) > 0 {
		lasting.delivered = r.Delivered.Events
		between, ok := changes.concerning(&lasting, max(r.From, r.Delivered.Through), root)
		if ok {
			for change := range between {
				lasting.replay(change, c.principals, &missed, f)
			}
		}
		lost = !ok
	}
	missed.rest(f)
	return lost, nil
}

// register adds all watches without a missed event; on an error it adds no watch. It returns the missed events of the
// other one-shot watches, and the lasting watches.
func (t *Table[C]) register(c *Connection[C], r Resumption, view View) (missed missedEvents, lasting lastingWatches, err error) {
	lasting.kinds = map[string]Kinds{}
	added := make([]Watch, 0, len(r.Watches))
	for _, w := range r.Watches {
		if err := checkWatch(w.Path, w.Kind); err != nil {
			return missedEvents{}, lastingWatches{}, t.removeAdded(c, added, err)
		}
		if w.Kind.OneShot() {
			e, ok := findMissed(w, span{r.From, End(t.index)}, view)
			if ok && view.Effective(w.Path).Grants(tree.Read, c.principals) {
				missed.add(e, Of(w.Kind))
				continue
			}
		}
		isNew, err := t.add(c, w.Path, w.Kind)
		if err != nil {
			return missedEvents{}, lastingWatches{}, t.removeAdded(c, added, err)
		}
		if isNew {
			added = append(added, w)
		}
		lasting.add(w)
	}
	missed.sort()
	return missed, lasting, nil
}

// removeAdded removes watches that register has just added, and returns err.
func (t *Table[C]) removeAdded(c *Connection[C], added []Watch, err error) error {
	for _, w := range added {
		t.Remove(c, w.Path, Of(w.Kind))
	}
	return err
}

// span is the range of stamps above after, up to and including through.
type span struct{ after, through tree.Stamp }

// findMissed returns the event that a one-shot watch has missed in the span; false if there is none (V4, W-07). The
// watch was registered at or before the span: a data or child watch on an entry that existed, an exists watch on a path
// without an entry. The stamp of a deletion is unknown, so the event carries the last stamp of the span, which is the
// view's.
//
// An exists watch misses an entry that was created and deleted within the span: the tree shows no difference.
func findMissed(w Watch, away span, view View) (tree.Event, bool) {
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
