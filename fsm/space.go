package fsm

import (
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// space is what hangs on the sessions of the tables: the tree, and what makes each write take effect once.
type space struct {
	// level is the cluster's feature level, 0 before the first Configure (W8).
	level   uint32
	limits  tree.Limits
	tree    *store.Tree
	writers *writers.Table
	// time has the log clock L (D3), and the freeze (Y3).
	time session.LogTime
	// keeps are the sessions that operators have extended (Y4).
	keeps keeps
	// sum is the digest of the tree and the writers. It belongs to the space, whose parts refer to it.
	sum setHash
}

// Add adds to the digest what a part of the space has (D6).
func (s *space) Add(canonical []byte) { s.sum.add(canonical) }

// Remove takes from the digest what a part of the space no longer has.
func (s *space) Remove(canonical []byte) { s.sum.remove(canonical) }

// newSpace returns the space before the first entry. The entries that each tree has get the lowest stamp.
func newSpace() *space {
	s := &space{limits: tree.DefaultLimits()}
	s.tree = store.New(s, s.limits, store.At{Stamp: tree.StampAt(0, 1)})
	s.writers = writers.New(s, writers.DefaultLimits())
	return s
}

// Tree is the tree with its writers as they were after one entry of the log (D8). It never changes, and is safe for
// concurrent use.
type Tree struct {
	// Index is that of the entry.
	Index uint64
	// Level is the cluster's feature level, 0 before the first Configure (W8).
	Level uint32
	// Clock is the log clock (D3), Time has it too.
	Clock   time.Duration
	Time    session.LogTime
	Limits  tree.Limits
	Root    *store.Root
	Writers *writers.Root
	keeps   keeps
	sum     setHash
}

// freeze returns the space as it is after the entry at index, at a cost that does not depend on its size.
func (s *space) freeze(index uint64) *Tree {
	return &Tree{
		Index: index, Level: s.level, Clock: s.time.Log, Time: s.time, Limits: s.limits, Root: s.tree.Freeze(),
		Writers: s.writers.Freeze(), keeps: s.keeps.freeze(), sum: s.sum,
	}
}

// spaceSum returns the digest of what hangs on the sessions.
func (t *tables) spaceSum() setHash {
	return t.shown.sum
}

// canonical appends what the digest says of the space as a whole (D6): the level, the limits, the log clock, the
// freeze, and the sum of the parts.
func (t *Tree) canonical(b []byte) []byte {
	open := uint64(0)
	if t.Limits.OpenQuotas {
		open = 1
	}
	b = be64(append(b, spaceThing), t.sum.hi, t.sum.lo, uint64(t.Level), uint64(t.Clock.Milliseconds()),
		uint64(t.Limits.Ephemerals), uint64(t.Limits.Children), uint64(t.Limits.Bytes), open) //nolint:gosec // positive
	return canonicalTime(b, t.Time)
}

// Wrote says what became of one write when it was applied. A write that was not carried out has Err: its session has
// ended or was moved ([session.ExpiredError], [session.MovedError]), an earlier write is missing or results wait
// ([tree.GapError], [tree.WindowError]), or its own result is gone ([session.ErrOutcomeUnknown]).
type Wrote struct {
	Session session.ID
	// Attachment and Number are those of the write.
	Attachment, Number uint64
	// At is the write's position in the log. The changes that it made have the same stamp, unless it repeats an earlier
	// write.
	At tree.Stamp
	// Result is the kept one, in the form of package tree/form. It must not be modified.
	Result []byte
	Err    error
}

// TreeObserver is told of all that happens to the tree, as an [Observer] is of sessions, on the same goroutine and with
// the same duties. It is told after the observers of sessions, and before [State.AppliedIndex] shows the entry (D8).
type TreeObserver interface {
	// AppliedTree says what an entry did: its changes and its writes, each in the order of their stamps. now is the tree
	// after it, which [State.Tree] already returns. It is called for each entry with commands or clocks, and for each
	// change of Raft's configuration: a snapshot may have the index of one, and a client that has been told this index by
	// a node that restored it goes on only where the index is reached (N4).
	AppliedTree(now *Tree, changes []tree.Change, wrote []Wrote)
	// RestoredTree says that a snapshot has replaced the state.
	RestoredTree(now *Tree)
}
