package model

// Stalls of a process, as it counts them itself and as a tracker hears of them (E1, L3).

// maxStalls is how many are remembered one by one; older ones are merged.
const maxStalls = 2

// stalls are how much had been credited in total by the end of each stall, on the clock of who counts; the newest
// last. An end of 0 is none.
type stalls [maxStalls]struct{ End, Sum uint8 }

func (s *stalls) newest() uint8 { return s[maxStalls-1].End }
func (s *stalls) total() uint8  { return s[maxStalls-1].Sum }

// add adds one, with what it is credited. One that seems to have ended before the newest counts as if it ended with it.
func (s *stalls) add(end, credit uint8) {
	last := s[maxStalls-1]
	if end > last.End {
		copy(s[:], s[1:])
	}
	s[maxStalls-1].End, s[maxStalls-1].Sum = max(end, last.End), last.Sum+credit
}

// since returns what is credited to who is silent since a moment: all that ended later.
func (s *stalls) since(moment uint8) uint8 {
	before := uint8(0)
	for _, one := range s {
		if one.End > 0 && one.End <= moment {
			before = one.Sum
		}
	}
	return s.total() - before
}

// grace is how long after a stall nobody comes due: one interval for another stall that is too short to be noticed,
// and one in which what waited in sockets is read.
func (x *step) grace() uint8 {
	switch {
	case !x.obeys(E1Grace):
		return 0
	case !x.obeys(E1GraceOfOne):
		return 1
	default:
		return 2
	}
}

// credited is when who would come due without stalls does: later by their credit, not within the grace after the
// newest, and at the latest a full timeout after its end.
func (x *step) credited(s *stalls, due uint8) uint8 {
	end, since := s.newest(), due-x.scope.Timeout
	if end == 0 || end <= since {
		return due
	}
	credit := s.since(since)
	if !x.obeys(E1Credit) {
		credit = 0
	}
	return max(due, min(max(due+credit, end+x.grace()), end+x.scope.Timeout))
}

// stall is a process that notices that it stalled: it is credited with the time from the stall's begin until the
// grace is over, and no moment twice; after a suspension with what its clock did not show as well.
func (x *step) stall(n *node) {
	length := x.Now - n.RestedAt
	begin, credit := n.Mono, length
	if n.Rest == paused {
		begin, credit = n.Mono-length, 0
	}
	until := n.Mono + x.grace()
	credit += until - min(max(begin, n.Covered), until)
	n.Vouch, n.Covered = n.Mono, until
	n.Stalls.add(n.Mono, credit)
	for tick := n.RestedAt + 1; tick <= x.Now; tick++ {
		n.Stood[tick/8] |= 1 << (tick % 8)
	}
}

// stood is in how many ticks after one moment and up to another the process did not run.
func (n *node) stood(after, upTo uint8) (ticks uint8) {
	for tick := after + 1; tick <= upTo; tick++ {
		ticks += n.Stood[tick/8] >> (tick % 8) & 1
	}
	return ticks
}

// hearStalls is a tracker that takes from an answer what is new of stalls: at most the time on its own clock since
// the answer before, and the grace.
func (x *step) hearStalls(k *link, w *message, clock uint8) {
	if k.Process != w.Process {
		k.Process, k.Credit = w.Process, 0
	}
	more := min(w.Credit-min(k.Credit, w.Credit), clock-k.HeardAt+x.grace())
	k.Credit, k.HeardAt = max(k.Credit, w.Credit), clock
	if more > 0 && clock >= epoch+w.VouchAge {
		k.Stalls.add(clock-w.VouchAge, more)
	}
}
