package check

import (
	"slices"

	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// VeiledPath is the part of the tree whose entries have lists that hide them from some of those that watch it. Watches
// of it are judged apart from others.
const VeiledPath = "/veiled"

// heard is a change of the log, with the lists that decide who hears of it.
type heard struct {
	tree.Change
	lists plain.Lists
}

// veils judges watches of what not everybody may read (V8): a watch is told of a change if the list that was in force
// for the entry at the change lets its client read, and of changed children if the list of the entry above does. What
// came before and later counts for nothing, nor do the lists of a connection that comes back.
type veils struct {
	watches
	all []heard
}

// veiled reports whether a watch is of the part of the tree with lists.
func (w *watch) veiled() bool {
	specs := w.began.Watched.Specs
	return len(specs) > 0 && (specs[0].Path == VeiledPath || tree.Below(specs[0].Path, VeiledPath))
}

// hides reports whether a watch matches something that its client may not read.
func (w *watch) hides(stamp tree.Stamp, what string) bool {
	return slices.ContainsFunc(w.hidden, func(d due) bool { return d.stamp == stamp && slices.Contains(d.what, what) })
}

func (c veils) check() {
	// What is told before a watch is in place, and of watches that begin twice, is said with all watches.
	byName := make(map[string]*watch)
	var all []*watch
	for _, e := range c.told {
		switch w := byName[e.Watched.Name]; {
		case w != nil:
			w.told = append(w.told, e)
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
	for _, w := range all {
		allowed := c.sort(w)
		c.lasting(w, allowed)
	}
}

// sort returns what a watch is to be told, and notes what is hidden from it.
func (c veils) sort(w *watch) (allowed []due) {
	upTo := w.toldUpTo()
	for _, h := range c.all {
		for i, e := range eventsOf(h.Change) {
			list := []tree.ACL{h.lists.Own, h.lists.Parent}[i]
			if !w.matches(e) {
				continue
			}
			name := "I14 told"
			if plain.Granted(list, tree.Read, w.began.Watched.As) {
				allowed = withEvent(allowed, e)
			} else {
				name, w.hidden = "I14 hidden", withEvent(w.hidden, e)
			}
			if e.Stamp <= upTo && !plain.Granted(list, tree.Read, nil) { // then it matters who watches
				c.checked(name)
			}
		}
	}
	return allowed
}

// toldUpTo returns the stamp up to which a watch was told everything.
func (w *watch) toldUpTo() (upTo tree.Stamp) {
	for _, e := range w.told {
		if e.Kind == history.WatchTold {
			upTo = max(upTo, e.Watched.Stamp)
		}
	}
	return upTo
}
