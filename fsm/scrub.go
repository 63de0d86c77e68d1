package fsm

import (
	"fmt"

	"holdfast/session"
)

// scrubRun is the number of things that are hashed in a row, in about a millisecond of a processor.
const scrubRun = 5000

// DamageError says that the contents of a state do not match its digest, or what it keeps of them: memory was corrupted,
// or the program has a fault.
type DamageError struct {
	// Index is the index of the copy that was checked.
	Index uint64
	// Err names what is wrong of that which follows from the contents of the tree and its writers; nil if that is sound.
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

// Unwrap returns what is wrong.
func (e *DamageError) Unwrap() error { return e.Err }

// tally is what the tables keep up to date command by command, and could compute from their contents.
type tally struct {
	sum setHash
	// space is the digest of what hangs on the sessions.
	space setHash
	// bytes are not in the digest. If they are damaged, the state differs from the other nodes' only after the first
	// open that they decide. Before that, a leader would refuse opens for the whole cluster (State.Room).
	bytes uint64
	// certificates are their bytes, which decide when they are dropped.
	certificates uint64
}

// Scrub computes the digest of the state, and the bytes that the capacity bounds (O4), from a frozen copy. It compares
// them with the values that are kept up to date command by command, which do not show what happens to memory between
// two commands. If they differ the error is a [DamageError], and from then on the state has the computed digest and
// bytes. So if the contents are damaged, the digest differs from the other nodes' (D1).
//
// It also computes what the tree and its writers keep about their contents, such as indexes, and the sums that decide
// which writes are refused. The digest does not have these. If one is damaged the digest is made to differ: what the node
// decides next may be wrong.
//
// Scrub calls pace after every few thousand things, and returns its error. It may run beside Apply, and is safe for
// concurrent use.
func (s *State) Scrub(pace func() error) error {
	s.mu.Lock()
	live, v := s.tables, s.frozen()
	s.mu.Unlock()
	return s.verify(v, live, pace)
}

// verify compares the tally of v, a frozen copy of live, with the contents of v.
func (s *State) verify(v *View, live *tables, pace func() error) error {
	is, damaged, err := v.tables.recount(pace)
	was := tally{v.tables.sum, v.tables.spaceSum(), v.tables.bytes, v.tables.certificates.bytes}
	if err != nil || is == was && damaged == nil {
		return err
	}
	if damaged != nil {
		is.space.add([]byte(damaged.Error()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables != live { // a snapshot has replaced it
		return nil
	}
	// The changes since the copy count the same for both.
	live.sum.plus(is.sum)
	live.sum.minus(was.sum)
	live.bytes += is.bytes - was.bytes
	live.certificates.bytes += is.certificates - was.certificates
	live.space.sum.plus(is.space)
	live.space.sum.minus(was.space)
	s.show(s.index)
	s.remember(s.index)
	return &DamageError{v.index, damaged}
}

// recount computes the tally from the contents of t. damaged names what is wrong of that which follows from the contents
// of the tree and its writers. err is that of pace.
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
		all.sum.add(canonical)
		all.bytes += cost
		return paced()
	}
	for _, mark := range t.marks {
		if mark != 0 && !add(canonicalMark(scratch, mark), 0) {
			return all, nil, err
		}
	}
	t.sessions.ascend(0, func(r *storedSession) bool { return add(r.canonical(scratch), r.cost()) })
	for _, c := range t.certificates.items {
		if err != nil || !add(c.canonical(scratch), 0) {
			return all, nil, err
		}
		all.certificates += c.cost()
	}
	if err == nil {
		t.requests.all(func(q request) bool { return add(q.canonical(scratch), session.RequestBytes) })
	}
	if err == nil {
		one := func() error {
			paced()
			return err
		}
		damaged = t.verifySpace(&all.space, one, func() error {
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

// verifySpace checks what the tree and its writers keep about their contents, and adds all that their digest has to sum.
// It calls one for each thing of the writers, and run for each few thousand of the tree, and returns their error.
func (t *tables) verifySpace(sum *setHash, one, run func() error) error {
	for _, one := range t.shown.keeps.all {
		sum.add(one.canonical())
	}
	err := t.shown.Writers.Verify(func(canonical []byte) error {
		sum.add(canonical)
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

// adding is a digest to which things are added alone.
type adding struct{ sum *setHash }

func (a adding) Add(canonical []byte) { a.sum.add(canonical) }

func (a adding) Remove(canonical []byte) { a.sum.remove(canonical) }
