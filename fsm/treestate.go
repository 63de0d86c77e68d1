package fsm

import (
	"time"

	"holdfast/fsm/digest"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// treeState is the tree's part of the state: the tree, its writers, the log clock, the freeze and the extensions.
// Package writers deduplicates writes.
type treeState struct {
	// level is the cluster's feature level, 0 before the first Configure (W8 feature level).
	level   uint32
	limits  tree.Limits
	tree    *store.Tree
	writers *writers.Table
	// time has the log clock L (D3 log clock), and the freeze (Y3 freeze).
	time session.LogTime
	// extensions are the sessions that operators have extended (Y4 extension).
	extensions extensions
	// sum is the hash of the elements of the tree, the writers and the extensions. The tree and the writers update it
	// through Add and Remove.
	sum digest.Set
}

// Add adds an element to the digest (D6 tree digest).
func (s *treeState) Add(canonical []byte) { s.sum.Add(canonical) }

// Remove removes an element from the digest.
func (s *treeState) Remove(canonical []byte) { s.sum.Remove(canonical) }

// newTreeState returns the tree state before the first entry. The entries that every tree has get the lowest stamp.
func newTreeState() *treeState {
	s := &treeState{limits: tree.DefaultLimits()}
	s.tree = store.New(s, s.limits, store.At{Stamp: tree.StampAt(0, 1)})
	s.writers = writers.New(s, writers.DefaultLimits())
	return s
}

// Tree is the tree with its writers after one entry of the log (D8 published roots). It never changes, and is safe for
// concurrent use.
type Tree struct {
	// Index is the index of the entry.
	Index uint64
	// Level is the cluster's feature level, 0 before the first Configure (W8).
	Level uint32
	// Clock is the log clock (D3), as in Time.
	Clock      time.Duration
	Time       session.LogTime
	Limits     tree.Limits
	Root       *store.Root
	Writers    *writers.Root
	extensions extensions
	sum        digest.Set
}

// freeze returns the tree after the entry at index. The cost does not depend on the size of the tree.
func (s *treeState) freeze(index uint64) *Tree {
	return &Tree{
		Index: index, Level: s.level, Clock: s.time.Log, Time: s.time, Limits: s.limits, Root: s.tree.Freeze(),
		Writers: s.writers.Freeze(), extensions: s.extensions.freeze(), sum: s.sum,
	}
}

// treeSum returns the hash of the elements of the tree state.
func (t *tables) treeSum() digest.Set {
	return t.shown.sum
}

// canonical appends the digest's bytes for the tree state (D6): the level, the limits, the log clock, the freeze, and
// the hash of the elements.
func (t *Tree) canonical(b []byte) []byte {
	open := uint64(0)
	if t.Limits.OpenQuotas {
		open = 1
	}
	b = digest.AppendUint64s(t.sum.Append(append(b, digest.KindTree)), uint64(t.Level), uint64(t.Clock.Milliseconds()),
		uint64(t.Limits.Ephemerals), uint64(t.Limits.Children), uint64(t.Limits.Bytes), open) //nolint:gosec // positive
	return canonicalTime(b, t.Time)
}
