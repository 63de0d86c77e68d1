package watch

import (
	"iter"

	"holdfast/session"
	"holdfast/tree"
)

// What an item takes in a ring, besides its texts, in bytes.
const (
	changeBytes        = 64
	sessionChangeBytes = 256
)

// TreeRing is a ring of changes of the tree. It finds those that concern given watches without going through all.
type TreeRing struct {
	*Ring[tree.Change]
	keys pathKeys
	// lists counts how often held changes refer to each access list; for the writer alone.
	lists map[*tree.ACL]int
}

// NewTreeRing returns a ring of changes of the tree that starts at index, as [NewRing] does.
func NewTreeRing(limits RingLimits, index uint64) *TreeRing {
	r := &TreeRing{keys: newPathKeys(), lists: map[*tree.ACL]int{}}
	r.Ring = NewRing(limits, index, func(c *tree.Change) tree.Stamp { return c.Stamp }, r.hold)
	r.freedOf, r.keysOf = r.drop, r.keys.ofChange
	return r
}

// Reset is [Ring.Reset].
func (r *TreeRing) Reset(index uint64) {
	clear(r.lists)
	r.Ring.Reset(index)
}

// hold returns what a change takes, with the access lists that no other change holds. An entry that was removed is
// still told by its list (V8), so the ring alone may have that. Without: changes of entries with lists of their own, of
// 16 KiB each, take gigabytes of a ring of 64 MiB.
func (r *TreeRing) hold(c *tree.Change) int {
	bytes := changeBytes + len(c.Path)
	for _, list := range [...]*tree.ACL{c.ACL, c.Parent} {
		if list == nil {
			continue
		}
		if r.lists[list]++; r.lists[list] == 1 {
			bytes += listBytes(*list)
		}
	}
	return bytes
}

// drop returns what is free once a change is dropped.
func (r *TreeRing) drop(c *tree.Change) int {
	bytes := changeBytes + len(c.Path)
	for _, list := range [...]*tree.ACL{c.ACL, c.Parent} {
		if list == nil {
			continue
		}
		if r.lists[list]--; r.lists[list] == 0 {
			delete(r.lists, list)
			bytes += listBytes(*list)
		}
	}
	return bytes
}

// listBytes is about what an access list takes in memory. The tree has its texts twice.
func listBytes(list tree.ACL) int {
	const plain, grant, copies = 96, 64, 2
	bytes := plain
	for _, g := range list {
		bytes += grant + copies*(len(g.Scheme)+len(g.ID))
	}
	return bytes
}

// maxKeys is the number of watches from which on it costs more to look into filters than to go through the changes.
const maxKeys = 64

// concerning is [Ring.Range], and may leave out changes that none of the watches is for.
func (r *TreeRing) concerning(l *lastingWatches, after, through tree.Stamp) (iter.Seq[*tree.Change], bool) {
	if len(l.kinds) > maxKeys {
		return r.Range(after, through)
	}
	keys := make([]uint64, 0, 2*len(l.kinds))
	for path, kinds := range l.kinds {
		keys = r.keys.ofWatch(keys, path, kinds)
	}
	return r.rangeWith(keys, after, through)
}

// SessionChange is a change of a session, with its stamp.
type SessionChange struct {
	Stamp tree.Stamp
	session.Change
}

// NewSessionRing returns a ring of changes of sessions. They have a ring of their own: otherwise the moves after a
// fail-over would push out the changes of the tree that clients come back for (V3).
func NewSessionRing(limits RingLimits, index uint64) *Ring[SessionChange] {
	return NewRing(limits, index, func(c *SessionChange) tree.Stamp { return c.Stamp },
		func(c *SessionChange) int { return sessionChangeBytes + int(c.Session.Labels.Bytes()) })
}
