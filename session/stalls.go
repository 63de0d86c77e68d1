package session

import (
	"slices"
	"sort"
	"time"
)

// Stalls are the gaps in which one process did not run (E1 full timeout after a change of leader). Each stall has an
// end and a credit, for sessions whose touches the process could not receive meanwhile. A node keeps the stalls of its
// own process, and the leader keeps the stalls of every owner, on the leader's clock. A nil Stalls is a process that
// never stalled. A value never changes, so it may be shared.
type Stalls struct {
	// stalls are ordered by their ends, and their credits rise.
	stalls []stall
	// grace is the time after the end of a stall in which no session comes due, because the process must first read its
	// sockets.
	grace time.Duration
}

// stall is one stall, or several merged ones: the end of the newest, and the total credit of all stalls up to it.
type stall struct{ end, credit time.Duration }

// GraceIntervals is the grace after a stall in heartbeat intervals (E1): one to read the sockets, and one for a second
// stall, too short to be noticed.
const GraceIntervals = 2

// maxStalls bounds the stalls of one value. Above the bound, With merges two stalls. A merge credits some sessions with
// too much, so these sessions may expire late (I2 never late), but never early.
const maxStalls = 64

// With returns s with one more stall. A stall whose end seems to be before that of the newest counts as ending with it.
func (s *Stalls) With(end, credit, grace time.Duration) *Stalls {
	next := &Stalls{grace: grace}
	if s != nil {
		last := s.stalls[len(s.stalls)-1]
		end, credit = max(end, last.end), credit+last.credit
		next.stalls = slices.Grow(slices.Clone(s.stalls), 1)
		if end == last.end {
			next.stalls = next.stalls[:len(next.stalls)-1]
		}
	}
	next.stalls = append(next.stalls, stall{end, credit})
	if len(next.stalls) > maxStalls {
		next.merge()
	}
	return next
}

// merge merges one stall into the next. Sessions that fell silent between these stalls then get the credit of both.
// merge chooses the stall whose credit is the smallest share of these sessions' silence.
func (s *Stalls) merge() {
	newest := s.stalls[len(s.stalls)-1].end
	smallest, lowest, before := 0, 0.0, time.Duration(0)
	for i, m := range s.stalls[:len(s.stalls)-1] {
		silence := newest - s.stalls[i+1].end + s.grace
		if share := float64(m.credit-before) / float64(silence); i == 0 || share < lowest {
			smallest, lowest = i, share
		}
		before = m.credit
	}
	s.stalls = slices.Delete(s.stalls, smallest, smallest+1)
}

// Total returns the sum of all credits.
func (s *Stalls) Total() time.Duration {
	if s == nil {
		return 0
	}
	return s.stalls[len(s.stalls)-1].credit
}

// Due returns when a session comes due that has been silent since the moment since. Without stalls it comes due at due,
// which is a timeout or more after since. The stalls that ended after since add their credit. The session does not come
// due within the grace after the newest stall, and comes due at the latest a timeout after the newest stall's end.
func (s *Stalls) Due(due, since, timeout time.Duration) time.Duration {
	if s == nil {
		return due
	}
	last := s.stalls[len(s.stalls)-1]
	full := last.end + timeout
	if due >= full { // always so when since is after the newest stall
		return due
	}
	return min(max(due+last.credit-s.until(since), last.end+s.grace), full)
}

// until returns the total credit of the stalls that ended by a moment.
func (s *Stalls) until(moment time.Duration) time.Duration {
	i := sort.Search(len(s.stalls), func(i int) bool { return s.stalls[i].end > moment })
	if i == 0 {
		return 0
	}
	return s.stalls[i-1].credit
}
