package store

import "holdfast/tree"

// Will is a transaction that is carried out when its session ends (U3). [tree.CheckWill] has let it pass.
type Will struct {
	// Principals are those of the write that set the will.
	Principals  []tree.Principal
	Transaction tree.Transaction
}

// Ended is what the end of a session did to the tree. Its death certificate tells it (U3).
type Ended struct {
	// Removed counts the ephemerals that went, Lingering those that stay until their lock-delay is over (F2).
	Removed, Lingering int
	// Will is what became of the will; nil without one.
	Will *tree.Outcome
}

// CloseSession removes all that a session owns, in the order of the keys (U1), and then carries out its will, whole or
// not at all; nil for none (U3). It also returns what watches see of both. The stamp is the session's own: each session
// that an entry of the log ends has a position (D2).
func (t *Tree) CloseSession(at At, owner uint64, will *Will) (Ended, []tree.Change) {
	return t.endSession(at, owner, will, func(*entry) bool { return false })
}

// ExpireSession is [Tree.CloseSession] for a session that has expired: entries with a lock-delay stay without an owner
// until that is over (F2).
func (t *Tree) ExpireSession(at At, owner uint64, will *Will) (Ended, []tree.Change) {
	return t.endSession(at, owner, will, func(e *entry) bool { return e.lifeMS > 0 })
}

// endSession removes what a session owns, but for the entries that linger, and carries out the will.
func (t *Tree) endSession(at At, owner uint64, will *Will, lingers func(*entry) bool) (Ended, []tree.Change) {
	keys := make([]string, 0, t.ephemeralsOf(owner).count)
	t.ownedBy(owner, func(key string) bool {
		keys = append(keys, key)
		return true
	})
	var ended Ended
	// Siblings are neighbours, so that each parent changes once.
	parent, gone := "", uint32(0)
	for _, key := range keys {
		if lingers(t.get(key)) {
			t.change(key, func(e *entry) {
				e.kind, e.owner = tree.Lingering, 0
				e.dueMS = at.L.Milliseconds() + e.lifeMS
			})
			ended.Lingering++
			continue
		}
		if above := tree.Parent(pathOf(key)); above != parent {
			if gone > 0 {
				t.bereave(at, parent, gone)
			}
			parent, gone = above, 0
		}
		t.vanish(at, key)
		gone++
		ended.Removed++
	}
	if gone > 0 {
		t.bereave(at, parent, gone)
	}
	changes := t.finish()
	if will == nil {
		return ended, changes
	}
	at.Session, at.Principals = 0, will.Principals
	outcome, willed := t.Do(at, will.Transaction)
	ended.Will = &outcome
	return ended, append(changes, willed...)
}
