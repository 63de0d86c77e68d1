package fsm

import (
	"fmt"

	"holdfast/session"
)

// scrubRun is how many things are hashed in a row: about a millisecond of a processor.
const scrubRun = 5000

// DamageError says that what is in a state is not what its digest was made of, command by command: memory was
// corrupted, or the program has a fault.
type DamageError struct {
	// Index is that of the copy in which it was found.
	Index uint64
}

// Error says what was found.
func (e *DamageError) Error() string {
	return fmt.Sprintf(
		"the state at index %d is not what its digest, or its count of bytes, was made of: this node's memory was "+
			"corrupted, or its program has a fault", e.Index,
	)
}

// tally is what is kept up to date command by command and follows from what is in a state.
type tally struct {
	sum setHash
	// bytes are not in the digest: where they are damaged, the state parts from the others' with the first open that is
	// decided by them. Before, the leader alone goes by its own (State.Room), and would refuse opens for all.
	bytes uint64
}

// Scrub computes the digest of the state anew, from a frozen copy, and compares it with the one that was kept up to
// date command by command: that one does not show what happens to memory between two commands. It does the same with
// the bytes that the capacity bounds (O4). When they differ the error is a [DamageError], and the state has the digest,
// and the bytes, of what is in it from then on: if what is in it was damaged, other nodes have another digest (D1).
// pace is called after each few thousand things; its error is returned. Safe for concurrent use, beside Apply.
func (s *State) Scrub(pace func() error) error {
	s.mu.Lock()
	live, v := s.tables, s.frozen()
	s.mu.Unlock()
	return s.verify(v, live, pace)
}

// verify compares the tally of v, a copy of live, with what is in it.
func (s *State) verify(v *View, live *tables, pace func() error) error {
	is, err := v.tables.recount(pace)
	was := tally{v.tables.sum, v.tables.bytes}
	if err != nil || is == was {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables != live { // a snapshot has replaced it
		return nil
	}
	// What has been put in and taken out since is the same for both.
	live.sum.plus(is.sum)
	live.sum.minus(was.sum)
	live.bytes += is.bytes - was.bytes
	s.remember(s.index)
	return &DamageError{v.index}
}

// recount returns the tally of everything that is in t.
func (t *tables) recount(pace func() error) (tally, error) {
	var (
		all     tally
		scratch []byte
		err     error
		run     int
	)
	add := func(canonical []byte, cost uint64) bool {
		scratch = canonical
		all.sum.add(canonical)
		all.bytes += cost
		if run++; run%scrubRun == 0 && pace != nil {
			err = pace()
		}
		return err == nil
	}
	for _, mark := range t.marks {
		if mark != 0 && !add(canonicalMark(scratch, mark), 0) {
			return all, err
		}
	}
	t.sessions.Scan(func(_ session.ID, r *storedSession) bool { return add(r.canonical(scratch), r.cost()) })
	for _, c := range t.certificates.items {
		if err != nil || !add(c.canonical(scratch), session.CertificateBytes) {
			return all, err
		}
	}
	for _, q := range t.requests.items {
		if err != nil || !add(q.canonical(scratch), session.RequestBytes) {
			return all, err
		}
	}
	return all, err
}
