package fsm

import (
	"fmt"

	"holdfast/session"
)

// scrubRun is how many things are hashed in a row: about a millisecond of a processor.
const scrubRun = 5000

// DamageError says that what is in a state is not what its digest was made of, command by command: memory was corrupted, or the program
// has a fault.
type DamageError struct {
	// Index is that of the copy in which it was found.
	Index uint64
}

// Error says what was found.
func (e *DamageError) Error() string {
	return fmt.Sprintf("the state at index %d is not what its digest was made of: this node's memory was corrupted, or its program has a fault", e.Index)
}

// Scrub computes the digest of the state anew, from a frozen copy, and compares it with the one that was kept up to date command by
// command: that one does not show what happens to memory between two commands. When they differ the error is a [DamageError], and the
// state has the digest of what is in it from then on: other nodes have another one (D1). pace is called after each few thousand things;
// its error is returned. Safe for concurrent use, beside Apply.
func (s *State) Scrub(pace func() error) error {
	s.mu.Lock()
	live, v := s.tables, s.frozen()
	s.mu.Unlock()
	return s.verify(v, live, pace)
}

// verify compares the digest of v, a copy of live, with what is in it.
func (s *State) verify(v *View, live *tables, pace func() error) error {
	is, err := v.tables.recount(pace)
	if err != nil || is == v.tables.sum {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables != live { // a snapshot has replaced it
		return nil
	}
	// What has been put in and taken out since is the same for both sums.
	live.sum.plus(is)
	live.sum.minus(v.tables.sum)
	s.remember(s.index)
	return &DamageError{v.index}
}

// recount returns the sum of everything that is in t.
func (t *tables) recount(pace func() error) (setHash, error) {
	var (
		sum     setHash
		scratch []byte
		err     error
		run     int
	)
	add := func(canonical []byte) bool {
		scratch = canonical
		sum.add(canonical)
		if run++; run%scrubRun == 0 && pace != nil {
			err = pace()
		}
		return err == nil
	}
	for _, mark := range t.marks {
		if mark != 0 && !add(canonicalMark(scratch, mark)) {
			return sum, err
		}
	}
	t.sessions.Scan(func(_ session.ID, r *record) bool { return add(r.canonical(scratch)) })
	for _, c := range t.certificates.items {
		if err != nil || !add(c.canonical(scratch)) {
			return sum, err
		}
	}
	for _, q := range t.requests.items {
		if err != nil || !add(q.canonical(scratch)) {
			return sum, err
		}
	}
	return sum, err
}
