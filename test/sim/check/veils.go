package check

import (
	"cmp"
	"slices"
	"time"

	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// VeiledPath is the part of the tree whose entries have lists that hide them from some watchers. Watches of this part
// are checked separately.
const VeiledPath = "/veiled"

// listedChange is a change of the log, with the access lists that decide about its events.
type listedChange struct {
	tree.Change
	lists plain.Lists
}

// veils checks watches of entries that not all clients may read (V8 events need READ): a watch receives a change if the
// list in force for the entry at the change lets its client read, and changed children if the list of the entry above
// does. Earlier and later lists do not matter, nor do the lists of a connection that comes back.
//
// A one-shot that comes back is checked against the tree that its client comes back to (V4 resumed watches), and so
// against the list in force there: it may fire with a change that was hidden when it happened, and need not fire with a
// change that is hidden by then. If its client has kept its connection, the one-shot has received each change as it
// happened. A matching lasting watch of the same client may receive it too.
type veils struct {
	watches
	all  []listedChange
	past *treeStates
}

// veiled reports whether a watch is of the part of the tree with lists.
func (w *watch) veiled() bool {
	specs := w.began.Watched.Specs
	return len(specs) > 0 && (specs[0].Path == VeiledPath || tree.Below(specs[0].Path, VeiledPath))
}

// hides reports whether a watch matches an event that its client may not read.
func (w *watch) hides(stamp tree.Stamp, what string) bool {
	return slices.ContainsFunc(w.hidden, func(d due) bool { return d.stamp == stamp && slices.Contains(d.what, what) })
}

func (c veils) check() {
	// The checks of all watches cover events before a watch is in place, and watches that start twice.
	byName := make(map[string]*watch)
	var all []*watch
	for _, e := range c.watchEvents {
		switch w := byName[e.Watched.Name]; {
		case w != nil:
			w.watchEvents = append(w.watchEvents, e)
		case e.Kind == history.WatchBegan:
			w = &watch{began: e}
			byName[e.Watched.Name] = w
			if w.veiled() {
				all = append(all, w)
			}
		}
	}
	c.scope = " veiled"
	defer func() { c.scope = "" }()
	c.tree = c.grow()
	for _, w := range all {
		if allowed := c.sort(w); w.oneShot() {
			c.once(w, allowed)
		} else {
			w.watchEvents = slices.DeleteFunc(slices.Clone(w.watchEvents), func(e history.Event) bool {
				return e.Kind == history.WatchReceived && !isDue(allowed, e.Watched.Event) && c.owedToOneShot(all, e)
			})
			c.lasting(w, allowed)
		}
	}
}

// owedToOneShot reports whether an event of a lasting watch may have been due to a one-shot of its client when the
// client came back: a connection receives an event once, whichever of its watches match (V2 each event once).
func (c veils) owedToOneShot(all []*watch, received history.Event) bool {
	e := received.Watched.Event
	return slices.ContainsFunc(all, func(w *watch) bool {
		return w.oneShot() && w.began.Who == received.Who && w.began.At <= received.At && w.firedOnlyFor(e) &&
			receives(w.began.Watched.Specs[0], e) && c.showed(w.began.Watched.Specs[0], w.began.Watched.As, e, maxStamp)
	})
}

// maxStamp is behind all that happens.
const maxStamp = ^tree.Stamp(0)

// firedOnlyFor reports whether a one-shot has fired with no other event.
func (w *watch) firedOnlyFor(e tree.Event) bool {
	return !slices.ContainsFunc(w.watchEvents, func(o history.Event) bool {
		return o.Kind == history.WatchReceived && o.Watched.Event != e
	})
}

// grow returns the part of the tree with lists.
func (c veils) grow() *watchedTree {
	g := &watchedTree{paths: make(map[string][]leaf)}
	for _, h := range c.all {
		if h.Path == VeiledPath || tree.Below(h.Path, VeiledPath) {
			g.changes = append(g.changes, h.Change)
			g.change(h.Change)
		}
	}
	return g
}

// once checks a one-shot, which may receive some changes as they happen.
func (c veils) once(w *watch, allowed []due) {
	spec, as := w.began.Watched.Specs[0], w.began.Watched.As
	c.oneShot(w, oneShotRules{
		mayHear: func(e history.Event) bool {
			if reported := e.Watched.Event; !isDue(allowed, reported) {
				c.checked("I14 one-shot came back")
				return c.showed(spec, as, reported, e.Watched.Upper)
			}
			return true
		},
		mustHaveFired: func(after tree.Stamp, reported history.Event) bool {
			upTo, hidden := reported.Watched.Stamp, uint64(0)
			switch {
			case c.stays(w, reported):
				// It fired as the change happened, whatever was hidden later.
				c.checked("I11 one-shot stays")
			case !c.tree.mustHaveFired(spec, after, upTo):
				return false
			default:
				// Wherever its client came back, it could read the change.
				hidden = c.hiddenLast(spec.Path, as, upTo)
			}
			pending := slices.ContainsFunc(allowed, func(d due) bool {
				return d.stamp > after && d.stamp <= upTo && d.stamp.Index() > hidden
			})
			if !pending {
				c.checked("I14 one-shot hidden")
			}
			return pending
		},
	})
}

// straying is how long before a watch was seen in place its client may have changed its connection.
const straying = time.Second

// stays reports whether a client had one connection from the start of a watch until the watch was complete up to a
// stamp: then nothing was resumed. The history shows when clients lose their connections, but not when a node falls
// behind its kept changes.
func (c veils) stays(w *watch, reported history.Event) bool {
	left := func(at time.Duration) bool { return at >= w.began.At-straying && at <= reported.At }
	return c.bounds.Keeps && !slices.ContainsFunc(slices.Concat(c.strayed[w.began.Who], c.strayed[""]), left)
}

// isDue reports whether an event is due.
func isDue(all []due, e tree.Event) bool {
	n, found := slices.BinarySearchFunc(all, e.Stamp, func(d due, s tree.Stamp) int { return cmp.Compare(d.stamp, s) })
	return found && slices.Contains(all[n].what, named(e))
}

// showed reports whether at some entry of the log, not above upTo, a client could read a path, and the event was the
// newest change of the path for a watch. The stamp of a deletion that was missed is that of the entry.
func (c veils) showed(s tree.WatchSpec, as []tree.Principal, e tree.Event, upTo tree.Stamp) bool {
	readable := func(index uint64) bool { return plain.Granted(c.past.list(s.Path, end(index)), tree.Read, as) }
	if e.Kind == tree.EntryDeleted {
		return e.Stamp.Index() <= upTo.Index() && !c.tree.at(s.Path, e.Stamp).there && readable(e.Stamp.Index())
	}
	indexes := append(c.turns(s.Path), e.Stamp.Index())
	return slices.ContainsFunc(indexes, func(index uint64) bool {
		now := c.tree.at(s.Path, end(index))
		newest := map[tree.EventKind]tree.Stamp{
			tree.EntryCreated: now.stat.Created, tree.DataChanged: now.stat.Modified,
			tree.ChildrenChanged: now.stat.ChildrenModified,
		}[e.Kind]
		return index >= e.Stamp.Index() && index <= upTo.Index() && now.there && newest == e.Stamp && readable(index)
	})
}

// hiddenLast returns the index, not above that of upTo, up to which a client could not always read a path; 0 if it
// always could.
func (c veils) hiddenLast(path string, as []tree.Principal, upTo tree.Stamp) (index uint64) {
	turns := c.turns(path)
	last := upTo.Index()
	for _, turn := range slices.Backward(turns) {
		if turn > last {
			continue
		}
		if !plain.Granted(c.past.list(path, end(turn)), tree.Read, as) {
			return last
		}
		last = turn - 1
	}
	return 0
}

// turns returns the indexes at which the list in force for a path may have changed, in their order.
func (c veils) turns(path string) (indexes []uint64) {
	for ; path != ""; path = tree.Parent(path) {
		for _, v := range c.past.paths[path] {
			indexes = append(indexes, v.from.Index())
		}
	}
	slices.Sort(indexes)
	return slices.Compact(indexes)
}

// sort returns the events that a watch must receive, and records the hidden ones.
func (c veils) sort(w *watch) (allowed []due) {
	upTo := w.progress()
	for _, h := range c.all {
		for i, e := range eventsOf(h.Change) {
			list := []tree.ACL{h.lists.Own, h.lists.Parent}[i]
			if !w.matches(e) {
				continue
			}
			name := "I14 delivered"
			if plain.Granted(list, tree.Read, w.began.Watched.As) {
				allowed = withEvent(allowed, e)
			} else {
				name, w.hidden = "I14 hidden", withEvent(w.hidden, e)
			}
			if e.Stamp <= upTo && !plain.Granted(list, tree.Read, nil) { // then the watcher's principals matter
				c.checked(name)
			}
		}
	}
	return allowed
}

// progress returns the stamp up to which a watch was complete.
func (w *watch) progress() (upTo tree.Stamp) {
	for _, e := range w.watchEvents {
		if e.Kind == history.WatchProgress {
			upTo = max(upTo, e.Watched.Stamp)
		}
	}
	return upTo
}
