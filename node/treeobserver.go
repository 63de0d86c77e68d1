package node

import (
	"holdfast/fsm"
	"holdfast/learner"
	"holdfast/learner/lane"
	"holdfast/tree"
)

// treeObserver tells a server of what happens to the tree in the state's words: siblings do not know each other.
type treeObserver struct{ server *learner.Server }

// AppliedTree tells what an entry did.
func (o treeObserver) AppliedTree(now *fsm.Tree, changes []tree.Change, wrote []fsm.Wrote) {
	all := make([]lane.Wrote, len(wrote))
	for i := range wrote {
		all[i] = lane.Wrote(wrote[i])
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
