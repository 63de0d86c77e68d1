package watch

import (
	"math/bits"

	"holdfast/tree"
)

// Kinds is a set of kinds of watches.
type Kinds uint8

// Of returns the set of the kinds, which must be valid.
func Of(kinds ...tree.WatchKind) (k Kinds) {
	for _, one := range kinds {
		k |= 1 << (one - 1)
	}
	return k
}

// Len returns the number of kinds.
func (k Kinds) Len() int { return bits.OnesCount8(uint8(k)) }

// Sets of kinds. A persistent or recursive watch stays until the client removes it.
const (
	data Kinds = 1 << iota
	exists
	child
	persistent
	recursive

	// OneShot watches end with their first event; Lasting watches do not.
	OneShot = data | exists | child
	Lasting = persistent | recursive
	// All is every kind.
	All = OneShot | Lasting
)

// OfWatcherType returns the kinds for a watcher type of ZooKeeper's removeWatches (N-22); false for an unknown type.
func OfWatcherType(watcherType int32) (Kinds, bool) {
	switch watcherType {
	case 1:
		return child, true
	case 2:
		return data | exists, true
	case 3:
		return All, true
	case 4:
		return persistent, true
	case 5:
		return recursive, true
	default:
		return 0, false
	}
}

// receivers returns the kinds of watches on a path that receive an event on this path (W-04, X-23). Recursive watches
// get no ChildrenChanged, because they get the event of the child itself (V1 kinds of watches, W-05).
func receivers(e tree.EventKind) Kinds {
	switch e {
	case tree.EntryCreated:
		return exists | persistent | recursive
	case tree.EntryDeleted:
		return data | exists | child | persistent | recursive
	case tree.DataChanged:
		return data | exists | persistent | recursive
	case tree.ChildrenChanged:
		return child | persistent
	default:
		return 0
	}
}

// eventOf returns the event of a change for watches on the entry itself.
func eventOf(c *tree.Change) tree.Event {
	e := tree.Event{Stamp: c.Stamp, Path: c.Path}
	switch c.Kind {
	case tree.Created:
		e.Kind = tree.EntryCreated
	case tree.Deleted:
		e.Kind = tree.EntryDeleted
	case tree.DataSet:
		e.Kind = tree.DataChanged
	default:
		panic("no such change")
	}
	return e
}

// parentEventOf returns the event of a change for watches on the parent; false if there is none.
func parentEventOf(c *tree.Change) (tree.Event, bool) {
	if c.Kind == tree.DataSet || c.Path == tree.Root {
		return tree.Event{}, false
	}
	return tree.Event{Stamp: c.Stamp, Kind: tree.ChildrenChanged, Path: tree.Parent(c.Path)}, true
}
