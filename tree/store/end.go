package store

import "holdfast/tree"

// Will is a transaction that the state carries out when its session ends (U3 wills). It has passed [tree.CheckWill].
type Will struct {
	// Principals are the principals of the write that set the will.
	Principals  []tree.Principal
	Transaction tree.Transaction
}

// Ended is the effect of a session's end on the tree. The death certificate reports it (U3).
type Ended struct {
	// Removed counts the removed ephemerals, InLockDelay the ephemerals that stay until their lock-delay is over (H2
	// lock-delay).
	Removed, InLockDelay int
	// Will is the outcome of the will; nil without a will.
	Will *tree.Outcome
}

// CloseSession removes all entries of a session in the order of the keys (U1 ephemerals end with the session). Then it
// carries out the session's will, completely or not at all; nil for no will (U3). It also returns the changes for
// watches. Each session that a log entry ends has its own position, so the stamp belongs to the session alone (D2
// stamps).
func (t *Tree) CloseSession(at At, owner uint64, will *Will) (Ended, []tree.Change) {
	return t.endSession(at, owner, will, func(*entry) bool { return false })
}

// ExpireSession is [Tree.CloseSession] for an expired session: entries with a lock-delay stay, without an owner, until
// the lock-delay is over (H2).
func (t *Tree) ExpireSession(at At, owner uint64, will *Will) (Ended, []tree.Change) {
	return t.endSession(at, owner, will, func(e *entry) bool { return e.lifeMS > 0 })
}

// endSession removes the entries of a session and carries out the will. Entries for which delayed returns true stay for
// their lock-delay.
func (t *Tree) endSession(at At, owner uint64, will *Will, delayed func(*entry) bool) (Ended, []tree.Change) {
	keys := make([]string, 0, t.ephemeralsOf(owner).count)
	t.ownedBy(owner, func(key string) bool {
		keys = append(keys, key)
		return true
	})
	var ended Ended
	// Siblings are neighbours in this order, so each parent changes once.
	parent, gone := "", uint32(0)
	for _, key := range keys {
		if delayed(t.get(key)) {
			t.change(key, func(e *entry) {
				e.kind, e.owner = tree.InLockDelay, 0
				e.dueMS = at.L.Milliseconds() + e.lifeMS
			})
			ended.InLockDelay++
			continue
		}
		if above := tree.Parent(pathOf(key)); above != parent {
			if gone > 0 {
				t.childrenRemoved(at, parent, gone)
			}
			parent, gone = above, 0
		}
		t.deleteRecord(at, key)
		gone++
		ended.Removed++
	}
	if gone > 0 {
		t.childrenRemoved(at, parent, gone)
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
