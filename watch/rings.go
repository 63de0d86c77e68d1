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
}

// NewTreeRing returns a ring of changes of the tree that starts at index, as [NewRing] does.
func NewTreeRing(limits RingLimits, index uint64) *TreeRing {
	r := &TreeRing{
		Ring: NewRing(limits, index, func(c *tree.Change) tree.Stamp { return c.Stamp },
			func(c *tree.Change) int { return changeBytes + len(c.Path) }),
		keys: newPathKeys(),
	}
	r.keysOf = r.keys.ofChange
	return r
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
