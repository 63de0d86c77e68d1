package session

import (
	"slices"
	"sort"
	"time"
)

// Stalls are the gaps in which one process did not run (E1). Each has an end, and a credit for the sessions that the
// process could not hear in it. A node keeps the stalls of its own process; the leader keeps those of every owner, on
// its own clock. nil is a process that never stalled. A value never changes, so that it may be shared.
type Stalls struct {
	// marks rise in both fields, the newest stall last. A mark that stands for several stalls has the end of the
	// newest of them.
	marks []stallMark
	// grace is how long after the end of a stall no session comes due: the process needs it to read its sockets.
	grace time.Duration
}

// stallMark says how much had been credited, in total, when a stall had ended.
type stallMark struct{ end, credit time.Duration }

// GraceIntervals is the grace after a stall in heartbeat intervals (E1): one for another stall, too short to be
// noticed, and one in which the process reads its sockets.
const GraceIntervals = 2

// maxStalls is how many marks are kept. Further ones are merged: then some sessions are credited with too much and
// live longer (I2).
const maxStalls = 64

// With returns s with one more stall. One that seems to have ended before the newest counts as if it ended with it.
func (s *Stalls) With(end, credit, grace time.Duration) *Stalls {
	next := &Stalls{grace: grace}
	if s != nil {
		last := s.marks[len(s.marks)-1]
		end, credit = max(end, last.end), credit+last.credit
		next.marks = slices.Grow(slices.Clone(s.marks), 1)
		if end == last.end {
			next.marks = next.marks[:len(next.marks)-1]
		}
	}
	next.marks = append(next.marks, stallMark{end, credit})
	if len(next.marks) > maxStalls {
		next.merge()
	}
	return next
}

// merge merges one mark into the next. Sessions that fell silent between the two get the credit of both. It chooses
// the mark whose credit is the smallest share of these sessions' silence.
func (s *Stalls) merge() {
	newest := s.marks[len(s.marks)-1].end
	least, lowest, before := 0, 0.0, time.Duration(0)
	for i, m := range s.marks[:len(s.marks)-1] {
		silence := newest - s.marks[i+1].end + s.grace
		if share := float64(m.credit-before) / float64(silence); i == 0 || share < lowest {
			least, lowest = i, share
		}
		before = m.credit
	}
	s.marks = slices.Delete(s.marks, least, least+1)
}

// Total returns all that was ever credited.
func (s *Stalls) Total() time.Duration {
	if s == nil {
		return 0
	}
	return s.marks[len(s.marks)-1].credit
}

// Due returns when a session comes due that has been silent since a moment. Without stalls it would come due at due, a
// timeout after that moment or later. The stalls that ended since then add their credit; the session does not come due
// within the grace after the newest one, nor later than a timeout after its end.
func (s *Stalls) Due(due, since, timeout time.Duration) time.Duration {
	if s == nil {
		return due
	}
	last := s.marks[len(s.marks)-1]
	full := last.end + timeout
	if due >= full { // also whenever since is after the newest stall
		return due
	}
	return min(max(due+last.credit-s.until(since), last.end+s.grace), full)
}

// until returns how much had been credited for stalls that ended by a moment.
func (s *Stalls) until(moment time.Duration) time.Duration {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].end > moment })
	if i == 0 {
		return 0
	}
	return s.marks[i-1].credit
}
