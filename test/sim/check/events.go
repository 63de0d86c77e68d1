package check

import (
	"cmp"
	"fmt"
	"slices"

	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// watches checks the events of watches (I11 no event missing, I13 no step back of docs/tree.md) by exact replay of the
// replicas' records: each watch from its start to its end.
type watches struct {
	judge
	tree *watchedTree
}

// watch is everything known about one watch.
type watch struct {
	began history.Event
	// watchEvents are WatchReceived, WatchLost and WatchProgress, in their order.
	watchEvents []history.Event
	// hidden are matching events that the watch's client may not read (V8 events need READ).
	hidden []due
}

// oneShot reports whether the watch fires once.
func (w *watch) oneShot() bool {
	specs := w.began.Watched.Specs
	return len(specs) > 0 && specs[0].Kind.OneShot()
}

// due are the events of one stamp that a watch must receive.
type due struct {
	stamp tree.Stamp
	// what are the events in order, received those that were delivered. An event may be due more than once: a transaction
	// may set an entry twice.
	what, received []string
}

func (c watches) check() {
	c.tree = newWatchedTree(c.treeChanges)
	c.states()
	c.reads()
	c.mirrors()
	moves := c.moves()
	for _, w := range c.watched() {
		switch {
		case w.veiled(): // judged by the replayed log, which knows the lists
		case w.oneShot():
			c.once(w)
		case len(w.began.Watched.Specs) == 0:
			c.scope = " sessions"
			c.lasting(w, after(moves, w.began.Watched.Stamp))
			c.scope = ""
		default:
			c.lasting(w, c.due(w))
		}
	}
}

// watched collects the events by watch, in the order of their starts.
func (c watches) watched() (all []*watch) {
	byName := make(map[string]*watch)
	for _, e := range c.watchEvents {
		name := e.Watched.Name
		w := byName[name]
		switch {
		case e.Kind == history.WatchBegan && w == nil:
			w = &watch{began: e}
			byName[name] = w
			all = append(all, w)
		case e.Kind == history.WatchBegan:
			c.fail("I11", 0, e.At, "begins twice: %s", history.Line(e))
		case w == nil:
			c.fail("I11", 0, e.At, "delivered before the watch was set: %s", history.Line(e))
		default:
			w.watchEvents = append(w.watchEvents, e)
		}
	}
	return all
}

// due returns the events that a lasting watch must receive (V1 kinds of watches, V2 each event once).
func (c watches) due(w *watch) (all []due) {
	for _, change := range c.tree.changes {
		for _, e := range eventsOf(change) {
			if w.matches(e) {
				all = withEvent(all, e)
			}
		}
	}
	return all
}

// matches reports whether a watch matches an event, ignoring access lists.
func (w *watch) matches(e tree.Event) bool {
	return e.Stamp > w.began.Watched.Stamp &&
		slices.ContainsFunc(w.began.Watched.Specs, func(s tree.WatchSpec) bool { return receives(s, e) })
}

// withEvent adds an event, which is not below the last event, to the due events.
func withEvent(all []due, e tree.Event) []due {
	if n := len(all); n == 0 || all[n-1].stamp != e.Stamp {
		all = append(all, due{stamp: e.Stamp})
	}
	last := &all[len(all)-1]
	last.what = append(last.what, named(e))
	return all
}

// named returns an event without its stamp.
func named(e tree.Event) string { return e.Path + " " + e.Kind.String() }

// eventsOf returns a change's events for watchers of the entry, and for watchers of its parent.
func eventsOf(c tree.Change) []tree.Event {
	e := tree.Event{Stamp: c.Stamp, Path: c.Path}
	switch c.Kind {
	case tree.Created:
		e.Kind = tree.EntryCreated
	case tree.Deleted:
		e.Kind = tree.EntryDeleted
	case tree.DataSet:
		e.Kind = tree.DataChanged
		return []tree.Event{e}
	}
	return []tree.Event{e, {Stamp: c.Stamp, Kind: tree.ChildrenChanged, Path: tree.Parent(c.Path)}}
}

// receives reports whether a watch receives an event as it happens; a one-shot, if it has not fired before.
func receives(s tree.WatchSpec, e tree.Event) bool {
	if e.Path == s.Path {
		switch s.Kind {
		case tree.WatchPersistent:
			return true
		case tree.WatchExists, tree.WatchRecursive:
			return e.Kind != tree.ChildrenChanged
		case tree.WatchChild:
			return e.Kind == tree.ChildrenChanged || e.Kind == tree.EntryDeleted
		case tree.WatchData:
			return e.Kind == tree.DataChanged || e.Kind == tree.EntryDeleted
		default:
			return false
		}
	}
	return s.Kind == tree.WatchRecursive && e.Kind != tree.ChildrenChanged && tree.Below(e.Path, s.Path)
}

// moves returns the events that watches of sessions must receive (V8): of each entry, from the process that has
// recorded most, because another may have been killed in the middle. The stamp is the lowest of the entry.
func (c watches) moves() (all []due) {
	type process struct {
		who   string
		start int
	}
	starts, byIndex := make(map[string]int), make(map[uint64]map[process][]string)
	for _, e := range c.applied {
		if e.Kind == history.NodeStarted {
			starts[e.Who]++
			continue
		}
		if byIndex[e.Index] == nil {
			byIndex[e.Index] = make(map[process][]string)
		}
		p := process{e.Who, starts[e.Who]}
		byIndex[e.Index][p] = append(byIndex[e.Index][p], sessionChange(e, e.Kind == history.AppliedEnd))
	}
	for index, made := range byIndex {
		d := due{stamp: tree.StampAt(index, 0)}
		for _, what := range made {
			if len(what) > len(d.what) {
				d.what = what
			}
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b due) int { return cmp.Compare(a.stamp, b.stamp) })
	return all
}

// sessionChange returns a change of a session without its stamp.
func sessionChange(e history.Event, ended bool) string { //nolint:revive // flag-parameter: one of two sorts of events
	if ended {
		return fmt.Sprintf("%s ended", e.ID)
	}
	return fmt.Sprintf("%s attachment %d", e.ID, e.Attachment)
}

// after returns a copy of the due events above a stamp.
func after(all []due, stamp tree.Stamp) []due {
	n, _ := slices.BinarySearchFunc(all, stamp, func(d due, s tree.Stamp) int { return cmp.Compare(d.stamp, s) })
	return slices.Clone(all[n:])
}

// sessionNamed returns the event of a watch of sessions, without its stamp.
func sessionNamed(e history.Event) string {
	return sessionChange(e, e.Watched.Session == session.Ended)
}
