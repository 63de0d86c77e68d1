package fsm

import (
	"fmt"

	"holdfast/session"
)

// scrubRun is the number of things that are hashed in a row, in about a millisecond of a processor.
const scrubRun = 5000

// DamageError says that the contents of a state do not match its digest, or its count of bytes: memory was corrupted,
// or the program has a fault.
type DamageError struct {
	// Index is the index of the copy that was checked.
	Index uint64
}

func (e *DamageError) Error() string {
	const damage = "the state at index %d does not match its digest or its count of bytes: " +
		"this node's memory was corrupted, or its program has a fault"
	return fmt.Sprintf(damage, e.Index)
}

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
	is, err := v.tables.recount(pace)
	was := tally{v.tables.sum, v.tables.spaceSum(), v.tables.bytes, v.tables.certificates.bytes}
	if err != nil || is == was {
		return err
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
	return &DamageError{v.index}
}

// recount computes the tally from the contents of t.
func (t *tables) recount(pace func() error) (tally, error) {
	var (
		all     tally
		scratch []byte
		err     error
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
			return all, err
		}
	}
	t.sessions.ascend(0, func(r *storedSession) bool { return add(r.canonical(scratch), r.cost()) })
	for _, c := range t.certificates.items {
		if err != nil || !add(c.canonical(scratch), 0) {
			return all, err
		}
		all.certificates += c.cost()
	}
	if err == nil {
		t.requests.all(func(q request) bool { return add(q.canonical(scratch), session.RequestBytes) })
	}
	if err == nil {
		t.shown.canonicals(func(canonical []byte) bool {
			all.space.add(canonical)
			return paced()
		})
	}
	return all, err
}

// canonicals calls f with all that the digest of the tree and its writers has, until f returns false.
func (t *Tree) canonicals(f func(canonical []byte) bool) {
	going := true
	for _, one := range t.keeps.all {
		if going = f(one.canonical()); !going {
			return
		}
	}
	t.Writers.Canonical(func(b []byte) bool {
		going = f(b)
		return going
	})
	if going {
		t.Root.Canonical(f)
	}
}
