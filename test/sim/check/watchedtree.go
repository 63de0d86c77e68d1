package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// watchedTree is the watched part of the tree by stamp, as the replicas recorded it when they applied it.
type watchedTree struct {
	// changes are in the order of their stamps, and within an entry of the log in the order in which they happened.
	changes []tree.Change
	// paths has the states of each path after its changes.
	paths map[string][]leaf
}

// leaf is the state of a path from a stamp on.
type leaf struct {
	from  tree.Stamp
	there bool
	stat  tree.Stat
}

// newWatchedTree builds the tree's history from the events of nodes.
func newWatchedTree(events []history.Event) *watchedTree {
	g := &watchedTree{paths: make(map[string][]leaf)}
	for _, e := range events {
		g.changes = append(g.changes, e.Grown.Changes...)
	}
	slices.SortStableFunc(g.changes, func(a, b tree.Change) int { return cmp.Compare(a.Stamp, b.Stamp) })
	for _, c := range g.changes {
		g.change(c)
	}
	return g
}

// change adds the next change.
func (g *watchedTree) change(c tree.Change) {
	now := g.newest(c.Path)
	now.from = c.Stamp
	switch c.Kind {
	case tree.Created:
		now.there = true
		now.stat = tree.Stat{Created: c.Stamp, Modified: c.Stamp, ChildrenModified: c.Stamp}
	case tree.Deleted:
		now = leaf{from: c.Stamp}
	case tree.DataSet:
		now.stat.Modified = c.Stamp
		now.stat.Version++
	}
	g.paths[c.Path] = append(g.paths[c.Path], now)
	if above := g.newest(tree.Parent(c.Path)); c.Kind != tree.DataSet && above.there {
		above.from, above.stat.ChildrenModified = c.Stamp, c.Stamp
		g.paths[tree.Parent(c.Path)] = append(g.paths[tree.Parent(c.Path)], above)
	}
}

// newest returns the state of a path after the changes so far.
func (g *watchedTree) newest(path string) leaf {
	all := g.paths[path]
	if len(all) == 0 {
		return leaf{}
	}
	return all[len(all)-1]
}

// place returns the number of a path's changes up to a stamp.
func (g *watchedTree) place(path string, stamp tree.Stamp) int {
	n, _ := slices.BinarySearchFunc(g.paths[path], stamp, func(l leaf, s tree.Stamp) int {
		if l.from <= s {
			return -1
		}
		return 1
	})
	return n
}

// at returns the state of a path at a stamp.
func (g *watchedTree) at(path string, stamp tree.Stamp) leaf {
	if n := g.place(path, stamp); n > 0 {
		return g.paths[path][n-1]
	}
	return leaf{}
}

// between returns the states of a path by the changes above one stamp, up to and with another.
func (g *watchedTree) between(path string, after, through tree.Stamp) []leaf {
	from, to := g.place(path, after), g.place(path, through)
	return g.paths[path][from:max(from, to)]
}

// shows reports whether a reader that is shown an entry, or that there is none, is shown this.
func (l leaf) shows(exists bool, stat tree.Stat) bool { //nolint:revive // flag-parameter: a read's answer
	if !exists || !l.there {
		return exists == l.there
	}
	return l.like(stat) && stat.ChildrenModified == l.stat.ChildrenModified
}

// like reports whether an entry is the same except for its children.
func (l leaf) like(stat tree.Stat) bool {
	return stat.Created == l.stat.Created && stat.Modified == l.stat.Modified && stat.Version == l.stat.Version
}

// String returns a read's answer.
func (l leaf) String() string {
	if !l.there {
		return fmt.Sprintf("nothing since %v", l.from)
	}
	return history.Leaf{Path: "an entry", Stat: l.stat}.String()
}

// entriesAt returns the existing entries at a stamp, in the order of the paths.
func (g *watchedTree) entriesAt(stamp tree.Stamp) (all []history.Leaf) {
	for _, path := range slices.Sorted(maps.Keys(g.paths)) {
		if l := g.at(path, stamp); l.there {
			all = append(all, history.Leaf{Path: path, Stat: l.stat})
		}
	}
	return all
}

// states checks I11: a node's changes for watches lead to the tree that the node shows, at each entry that changed the
// tree.
func (c watches) states() {
	for _, e := range c.treeChanges {
		c.checked("I11 record")
		want := c.tree.entriesAt(end(e.Index))
		same := slices.EqualFunc(want, e.Grown.Entries, func(a, b history.Leaf) bool {
			return a.Path == b.Path && leaf{there: true, stat: a.Stat}.shows(true, b.Stat)
		})
		if !same {
			c.fail("I11", 0, e.At, "at index %d %s shows\n%v\nand what was recorded of changes leads to\n%v", e.Index, e.Who,
				e.Grown.Entries, want)
		}
	}
}

// end returns the last stamp that a change of the entry at index can have.
func end(index uint64) tree.Stamp { return tree.StampAt(index, tree.MaxPosition) }
