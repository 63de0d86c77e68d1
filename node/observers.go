package node

import (
	"sync/atomic"

	"holdfast/fsm"
	"holdfast/learner"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
)

// treeObserver tells a server of what happens to the tree in the state's words: siblings do not know each other.
type treeObserver struct{ server *learner.Server }

// AppliedTree tells what an entry did.
func (o treeObserver) AppliedTree(now *fsm.Tree, changes []tree.Change, wrote []fsm.Wrote) {
	all := make([]pending.Outcome, len(wrote))
	for i := range wrote {
		all[i] = pending.Outcome(wrote[i])
	}
	o.server.AppliedTree(stateOf(now), changes, all)
}

// RestoredTree tells that a snapshot has replaced the tree.
func (o treeObserver) RestoredTree(now *fsm.Tree) { o.server.RestoredTree(stateOf(now)) }

// stateOf returns a tree as the server takes it.
func stateOf(now *fsm.Tree) learner.TreeState {
	return learner.TreeState{
		Index: now.Index, Founded: now.Level > 0, Root: now.Root, Writers: now.Writers, Clock: now.Clock,
		Time: now.Time,
	}
}

// treeHook lets a function observe the tree.
type treeHook func(now *fsm.Tree, changes []tree.Change, wrote []fsm.Wrote)

// AppliedTree tells what an entry did.
func (h treeHook) AppliedTree(now *fsm.Tree, changes []tree.Change, wrote []fsm.Wrote) {
	h(now, changes, wrote)
}

// RestoredTree tells nothing: no entry was applied.
func (h treeHook) RestoredTree(*fsm.Tree) {}

// appliedHook lets [Observers.Applied] observe the state.
type appliedHook func(index, term uint64, changes []session.Change)

func (h appliedHook) Applied(index, term uint64, changes []session.Change) { h(index, term, changes) }
func (h appliedHook) Restored()                                            {}

// turnover counts what became of replicated sessions, and writes of the tree, as this node has applied them: on every
// node, whoever leads. It is an [fsm.Observer] and an [fsm.TreeObserver]. Safe for concurrent use.
type turnover struct{ opened, moved, closed, expired, killed, written atomic.Uint64 }

// Applied counts the changes of an entry.
func (t *turnover) Applied(_, _ uint64, changes []session.Change) {
	for i := range changes {
		switch c := &changes[i]; {
		case c.Kind == session.Opened:
			t.opened.Add(1)
		case c.Kind == session.Moved:
			t.moved.Add(1)
		case c.Kind != session.Ended:
		case c.Certificate.Cause == session.CauseClosed:
			t.closed.Add(1)
		case c.Certificate.Cause == session.CauseExpired:
			t.expired.Add(1)
		case c.Certificate.Cause == session.CauseKilled:
			t.killed.Add(1)
		}
	}
}

// Restored counts nothing: the changes before a snapshot are not told one by one.
func (*turnover) Restored() {}

// AppliedTree counts the writes of an entry.
func (t *turnover) AppliedTree(_ *fsm.Tree, _ []tree.Change, wrote []fsm.Wrote) {
	t.written.Add(uint64(len(wrote)))
}

// RestoredTree counts nothing, as Restored.
func (*turnover) RestoredTree(*fsm.Tree) {}

// counts returns what was counted so far.
func (t *turnover) counts() session.Turnover {
	return session.Turnover{
		Opens: t.opened.Load(), Moves: t.moved.Load(), Closes: t.closed.Load(), Expiries: t.expired.Load(),
		Kills: t.killed.Load(), TreeWrites: t.written.Load(),
	}
}
