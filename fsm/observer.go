package fsm

import (
	"slices"

	"holdfast/session"
	"holdfast/tree"
)

// Wrote is the outcome of one write. A write that the state did not execute has Err: its session has ended or was moved
// ([session.ExpiredError], [session.MovedError]), an earlier write is missing or too many results are kept
// ([tree.GapError], [tree.WindowError]), or the result of the write is gone ([session.ErrOutcomeUnknown]).
type Wrote struct {
	Session session.ID
	// Attachment and Number are the attachment and the number in the write.
	Attachment, Number uint64
	// At is the position of the write in the log. The changes of the write have the same stamp, unless the write
	// repeats an earlier one.
	At tree.Stamp
	// Result is the kept result, in the form of package tree/form. Observers must not modify it.
	Result []byte
	Err    error
	// Before is the tree before the write, if the write was executed now and has ReadsBefore; otherwise nil.
	Before tree.Frozen
}

// TreeObserver receives all changes of the tree, as an [Observer] receives changes of sessions, on the same goroutine
// and with the same duties. A State calls it after the observers of sessions, and before [State.AppliedIndex] shows the
// entry (D8 published roots).
type TreeObserver interface {
	// AppliedTree reports the changes and the writes of an entry, each in the order of their stamps. now is the tree
	// after the entry, which [State.Tree] already returns. A State calls AppliedTree for each entry with commands or
	// clocks, and for each change of Raft's configuration: a snapshot may have the index of such a change, and a client
	// that has learned this index from a node that restored the snapshot continues only on nodes that have reached the
	// index (N4 seen index).
	AppliedTree(now *Tree, changes []tree.Change, wrote []Wrote)
	// RestoredTree reports that a snapshot has replaced the state.
	RestoredTree(now *Tree)
}

// Observer receives every change of a state, on Raft's FSM goroutine. It must be quick, and must not wait for anything
// that needs that goroutine, such as [State.WaitApplied] or a proposal. It may read the state.
type Observer interface {
	// Applied reports that the state has applied the entry at index, of term, with or without changes. Reads of the
	// state already show the changes. [State.Attachment], [State.AppliedIndex] and [State.WaitApplied] show the entry
	// only after every observer has returned, so their readers know that the observers have acted (M3 served in the
	// leader's term, T1 atomic swap). changes are in the order in which they happened. Observers may keep them, but
	// must not modify them.
	Applied(index, term uint64, changes []session.Change)
	// Restored reports that a snapshot has replaced the whole state (M4 former clients are notified first).
	Restored()
}

// Observe registers o and returns a View of that moment: o receives every change that the View does not show. cancel
// ends the registration. A call of o that has begun may still run when cancel returns. cancel may be called more than
// once, and by o.
func (s *State) Observe(o Observer) (frozen *View, cancel func()) {
	r := &registration{o}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(slices.Clip(s.observers), r)
	return s.frozen(), func() { s.forget(r) }
}

func (s *State) forget(r *registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = slices.DeleteFunc(slices.Clone(s.observers), func(o *registration) bool { return o == r })
}

// ObserveTree registers o and returns the tree of that moment: o receives every change that this tree does not show.
// cancel is as that of [State.Observe].
func (s *State) ObserveTree(o TreeObserver) (now *Tree, cancel func()) {
	r := &treeRegistration{o}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.treeObservers = append(slices.Clip(s.treeObservers), r)
	return s.tables.shown, func() { s.forgetTree(r) }
}

func (s *State) forgetTree(r *treeRegistration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.treeObservers = slices.DeleteFunc(slices.Clone(s.treeObservers), func(o *treeRegistration) bool { return o == r })
}

type (
	registration     struct{ Observer }
	treeRegistration struct{ TreeObserver }
)
