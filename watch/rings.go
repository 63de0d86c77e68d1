package watch

import (
	"iter"

	"holdfast/session"
	"holdfast/tree"
)

// Memory of an item in a ring besides its texts, in bytes.
const (
	changeBytes        = 64
	sessionChangeBytes = 192
	certificateBytes   = 384
)

// TreeRing is a ring of changes of the tree. It finds the changes for given watches without a scan of all.
type TreeRing struct {
	*Ring[tree.Change]
	keys pathKeys
	// lists counts the references of held changes to each access list. Only the writer uses it.
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

// hold returns the bytes of a change, with the access lists that no other change holds. The events of a removed entry
// still need its list (V8 events need READ), so the ring may hold the only reference. If lists did not count, changes
// of entries with their own lists of 16 KiB would take gigabytes in a ring of 64 MiB.
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

// drop returns the bytes that dropping a change frees.
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

// listBytes is the approximate memory of an access list. The tree holds the list's texts twice.
func listBytes(list tree.ACL) int {
	const plain, grant, copies = 96, 64, 2
	bytes := plain
	for _, g := range list {
		bytes += grant + copies*(len(g.Scheme)+len(g.ID))
	}
	return bytes
}

// maxKeys is the largest number of watches for which looking into filters is cheaper than scanning the changes.
const maxKeys = 64

// concerning is [Ring.Range], but may omit changes that match none of the watches.
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

// NewSessionRing returns a ring of changes of sessions. Sessions have their own ring: otherwise the moves after a
// fail-over would push out the changes of the tree that resuming clients need (V3 ring of changes).
func NewSessionRing(limits RingLimits, index uint64) *Ring[session.Change] {
	return NewRing(limits, index, func(c *session.Change) tree.Stamp { return c.Stamp }, func(c *session.Change) int {
		bytes := sessionChangeBytes + int(c.Session.SpecBytes())
		if c.Certificate != nil {
			bytes += certificateBytes
		}
		return bytes
	})
}
