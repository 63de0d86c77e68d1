package fsm

import (
	"fmt"

	"holdfast/fsm/digest"
	"holdfast/fsm/requests"
	"holdfast/fsm/sessions"
	"holdfast/session"
)

// scrubRun is the number of elements that are hashed in a row, in about a millisecond of a processor.
const scrubRun = 5000

// DamageError says that the contents of a state do not match its digest or its counts: memory was corrupted, or the
// program has a fault.
type DamageError struct {
	// Index is the index of the copy that was checked.
	Index uint64
	// Err describes damage in the indexes and counts of the tree and its writers; nil if they are sound.
	Err error
}

func (e *DamageError) Error() string {
	const damage = "the state at index %d does not match its digest or its count of bytes: " +
		"this node's memory was corrupted, or its program has a fault"
	if e.Err != nil {
		return fmt.Sprintf(damage+": %v", e.Index, e.Err)
	}
	return fmt.Sprintf(damage, e.Index)
}

// Unwrap returns Err.
func (e *DamageError) Unwrap() error { return e.Err }

// tally has the values that the tables update with each command, and that follow from their contents.
type tally struct {
	sum digest.Set
	// tree is the hash of the elements of the tree state.
	tree digest.Set
	// bytes is not in the digest. If bytes is damaged, the state differs from the other nodes' only after the first
	// open that it decides. Before that, a leader would refuse opens for the whole cluster ([State.CheckCapacity]).
	bytes uint64
	// certificates is the bytes of the certificates, which decide when certificates are dropped.
	certificates uint64
}

// Scrub finds damage of memory (C1 digest comparison). It computes the digest of the state, and the bytes that the
// capacity bounds (O4 state limits), from a frozen copy. It compares them with the values that commands have updated:
// damage between two commands does not show in those values. If they differ, the error is a [DamageError], and the
// state has the computed digest and bytes from then on. So the digest of a damaged state differs from the other nodes'
// digests.
//
// Scrub also computes what the tree and its writers derive from their contents, such as indexes, and the sums that
// decide which writes are refused. The digest does not have these. If one of them is damaged, Scrub makes the digest
// differ: the node may decide the next commands wrongly.
//
// Scrub calls pace after every few thousand elements, and returns pace's error. Safe for concurrent use, also during
// Apply.
func (s *State) Scrub(pace func() error) error {
	s.mu.Lock()
	live, v := s.tables, s.frozen()
	s.mu.Unlock()
	return s.verify(v, live, pace)
}

// verify compares the tally of v, a frozen copy of live, with the contents of v.
func (s *State) verify(v *View, live *tables, pace func() error) error {
	is, damaged, err := v.tables.recount(pace)
	was := tally{v.tables.sum, v.tables.treeSum(), v.tables.bytes, v.tables.certificates.Bytes}
	if err != nil || is == was && damaged == nil {
		return err
	}
	if damaged != nil {
		is.tree.Add([]byte(damaged.Error()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables != live { // a snapshot has replaced it
		return nil
	}
	// The changes since the copy count the same in both.
	live.sum.Plus(is.sum)
	live.sum.Minus(was.sum)
	live.bytes += is.bytes - was.bytes
	live.certificates.Bytes += is.certificates - was.certificates
	live.treeState.sum.Plus(is.tree)
	live.treeState.sum.Minus(was.tree)
	s.publishTree(s.index)
	s.recordDigest(s.index)
	return &DamageError{v.index, damaged}
}

// recount computes the tally from the contents of t. damaged describes damage in the indexes and counts of the tree and
// its writers. err is pace's error.
func (t *tables) recount(pace func() error) (all tally, damaged, err error) {
	var (
		scratch []byte
		run     int
	)
	paced := func() bool {
		if run++; run%scrubRun == 0 && pace != nil {
			err = pace()
		}
		return err == nil
	}
	add := func(canonical []byte, cost uint64) bool {
		scratch = canonical
		all.sum.Add(canonical)
		all.bytes += cost
		return paced()
	}
	for _, mark := range t.marks {
		if mark != 0 && !add(canonicalMark(scratch, mark), 0) {
			return all, nil, err
		}
	}
	t.sessions.Ascend(0, func(r *sessions.Row) bool { return add(r.Canonical(scratch), r.Cost()) })
	for _, c := range t.certificates.Items {
		if err != nil || !add(c.Canonical(scratch), 0) {
			return all, nil, err
		}
		all.certificates += c.Cost()
	}
	if err == nil {
		t.requests.All(func(q requests.Request) bool { return add(q.Canonical(scratch), session.RequestBytes) })
	}
	if err == nil {
		one := func() error {
			paced()
			return err
		}
		damaged = t.verifyTree(&all.tree, one, func() error {
			if pace != nil {
				err = pace()
			}
			return err
		})
	}
	if err != nil {
		return all, nil, err
	}
	return all, damaged, nil
}

// verifyTree checks what the tree and its writers derive from their contents, and adds the elements of the tree state
// to sum. It calls one for each element of the writers, and run for each few thousand of the tree, and returns their
// error.
func (t *tables) verifyTree(sum *digest.Set, one, run func() error) error {
	for _, one := range t.shown.extensions.all {
		sum.Add(one.canonical())
	}
	err := t.shown.Writers.Verify(func(canonical []byte) error {
		sum.Add(canonical)
		return one()
	})
	if err != nil {
		return err
	}
	alive := func(owner uint64) bool {
		_, ok := t.session(session.ID(owner))
		return ok
	}
	return t.shown.Root.Verify(adding{sum}, alive, run)
}

// adding lets the tree add its elements to sum.
type adding struct{ sum *digest.Set }

func (a adding) Add(canonical []byte) { a.sum.Add(canonical) }

func (a adding) Remove(canonical []byte) { a.sum.Remove(canonical) }
