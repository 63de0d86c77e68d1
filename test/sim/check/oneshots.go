package check

import (
	"slices"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// once checks I11 for a one-shot watch: it fires once at most, with a change above its start, and it has fired by the
// time at which its client knows everything up to such a change. After a lost connection the state of the tree decides
// whether it must fire (V4 resumed watches): then it fires with the newest change.
func (c watches) once(w *watch) {
	spec := w.began.Watched.Specs[0]
	c.oneShot(w, oneShotRules{
		mayHear: func(history.Event) bool { return true },
		mustHaveFired: func(after tree.Stamp, reported history.Event) bool {
			return c.tree.mustHaveFired(spec, after, reported.Watched.Stamp)
		},
	})
}

// oneShotRules are the rules for watches of one part of the tree, beyond the common rules.
type oneShotRules struct {
	// mayHear reports whether the client may read its event.
	mayHear func(history.Event) bool
	// mustHaveFired reports whether the watch must have fired, if it started at a stamp and its client knew everything up
	// to another.
	mustHaveFired func(after tree.Stamp, reported history.Event) bool
}

func (c watches) oneShot(w *watch, rules oneShotRules) {
	spec, from := w.began.Watched.Specs[0], w.began.Watched.Stamp
	in := max(from, w.began.Watched.Upper)
	fired := false
	for _, e := range w.watchEvents {
		fail := func(invariant, what string) {
			c.misled(e, invariant, "the watch of %s, %s", history.Line(w.began), what)
		}
		switch {
		case e.Kind == history.WatchLost:
			fail("I11", "got LOST, and a one-shot loses nothing")
		case e.Kind == history.WatchReceived && fired:
			fail("I11", "fired again")
		case e.Kind == history.WatchReceived:
			c.checked("I11 one-shot")
			fired = true
			if !c.tree.fires(spec, from, e.Watched.Event) {
				fail("I11", "event that does not match the watch, or never happened")
			} else if !rules.mayHear(e) {
				fail("I14", "event of an entry that its client may not read")
			}
		case !fired && rules.mustHaveFired(in, e):
			fail("I11", "not fired by then")
			fired = true // said once
		default:
			c.checked("I11 one-shot waits")
		}
	}
}

// fires reports whether a one-shot watch that started at a stamp may fire with an event.
func (g *watchedTree) fires(s tree.WatchSpec, from tree.Stamp, e tree.Event) bool {
	if e.Path != s.Path || e.Stamp <= from {
		return false
	}
	now := g.at(s.Path, e.Stamp)
	switch e.Kind {
	case tree.EntryCreated:
		return s.Kind == tree.WatchExists && now.there && now.stat.Created == e.Stamp
	case tree.DataChanged:
		return s.Kind != tree.WatchChild && g.became(s.Path, e.Stamp, func(l leaf) bool { return l.stat.Modified == e.Stamp })
	case tree.ChildrenChanged:
		return s.Kind == tree.WatchChild &&
			g.became(s.Path, e.Stamp, func(l leaf) bool { return l.stat.ChildrenModified == e.Stamp })
	case tree.EntryDeleted:
		// The stamp of a deletion that was missed is the dispatcher's.
		gone := slices.ContainsFunc(g.between(s.Path, from, e.Stamp), func(l leaf) bool { return !l.there })
		return gone && (!now.there || g.became(s.Path, e.Stamp, func(l leaf) bool { return !l.there }))
	default:
		return false
	}
}

// became reports whether a change with a stamp made a path such.
func (g *watchedTree) became(path string, stamp tree.Stamp, such func(leaf) bool) bool {
	return slices.ContainsFunc(g.between(path, stamp-1, stamp), such)
}

// mustHaveFired reports whether a one-shot watch that started at a stamp must have fired by another. An exists watch
// that waits for an entry may miss an entry that came and went while its client was away.
func (g *watchedTree) mustHaveFired(s tree.WatchSpec, from, upTo tree.Stamp) bool {
	if s.Kind == tree.WatchExists && !g.at(s.Path, from).there {
		return g.at(s.Path, upTo).there
	}
	return slices.ContainsFunc(g.between(s.Path, from, upTo), func(l leaf) bool {
		switch {
		case !l.there:
			return true
		case s.Kind == tree.WatchChild:
			return l.stat.ChildrenModified == l.from
		default:
			return l.stat.Modified == l.from
		}
	})
}
