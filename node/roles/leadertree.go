package roles

import (
	"time"

	"holdfast/fsm/entry"
	"holdfast/leader"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// leaderTree is what a leader needs of the tree in this node's state. Its methods are safe for concurrent use.
type leaderTree struct {
	state State
	// tracker returns the tracker of the term that this node leads, nil if it leads none.
	tracker func() *leader.Tracker
	wall    func() time.Time
}

// clocks returns what the proposer puts into an entry (D3 log clock).
func (n *leaderTree) clocks() entry.Clocks {
	c := entry.Clocks{WallMS: max(n.wall().UnixMilli(), 1)} // never zero: an entry may have nothing else
	if t := n.tracker(); t != nil {
		c.Log = t.RunningClock()
	}
	return c
}

// time returns the time of the state (Y3 freeze).
func (n *leaderTree) time() session.LogTime { return n.state.Tree().Time }

// kept returns the moment of the log clock below which a session does not expire, 0 for none (Y4 extension).
func (n *leaderTree) kept(id session.ID) time.Duration { return n.state.Tree().ExtendedUntil(id) }

// reap returns the command that removes what is due at a time of the log clock, as much as one command may (D5 TTLs and
// containers).
func (n *leaderTree) reap(clock time.Duration) leader.Reaping {
	now := n.state.Tree()
	all, weight, more := now.Root.NextReap(clock)
	if len(all) == 0 {
		return leader.Reaping{Waits: now.Root.Ending() || now.Time.Freeze != nil || now.Extended() > 0}
	}
	encoded, err := form.AppendReap(nil, all)
	if err != nil {
		panic("roles: what is due cannot be removed: " + err.Error()) // the tree has only valid paths
	}
	return leader.Reaping{Due: &session.TreeCommand{Encoded: encoded, Weight: weight}, More: more, Waits: true}
}

// weight returns how much work the end of a session makes in the tree (U2 weight).
func (n *leaderTree) weight(id session.ID) int {
	now := n.state.Tree()
	weight := now.Root.OwnedWeight(uint64(id))
	if will, ok := now.Writers.Will(uint64(id)); ok {
		kept, err := form.ParseWill(will.Data)
		if err != nil {
			return tree.MaxWeight
		}
		weight += tree.Weight(kept.Transaction)
	}
	return weight
}
