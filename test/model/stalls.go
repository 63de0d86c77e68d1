package model

// Stalls of a process, as the process counts them and as a tracker learns of them (E1 full timeout after a change of
// leader, L3 local expiry).

// maxStalls is how many stalls are remembered separately; older stalls are merged.
const maxStalls = 2

// stalls are the ends of stalls with the total credit by each end, on the clock of the counting process; the newest is
// last. An end of 0 is none.
type stalls [maxStalls]struct{ End, Sum uint8 }

func (s *stalls) newest() uint8 { return s[maxStalls-1].End }
func (s *stalls) total() uint8  { return s[maxStalls-1].Sum }

// add adds a stall with its credit. A stall that seems to have ended before the newest stall counts as if both ended at
// once.
func (s *stalls) add(end, credit uint8) {
	last := s[maxStalls-1]
	if end > last.End {
		copy(s[:], s[1:])
	}
	s[maxStalls-1].End, s[maxStalls-1].Sum = max(end, last.End), last.Sum+credit
}

// since returns the credit for all stalls that ended after a moment.
func (s *stalls) since(moment uint8) uint8 {
	before := uint8(0)
	for _, one := range s {
		if one.End > 0 && one.End <= moment {
			before = one.Sum
		}
	}
	return s.total() - before
}

// grace is how long after a stall no session comes due: one interval for another stall that is too short to be noticed,
// and one for reading the messages in sockets.
func (p *protocol) grace() uint8 {
	switch {
	case !p.Obeys(E1Grace):
		return 0
	case !p.Obeys(E1GraceOfOne):
		return 1
	default:
		return 2
	}
}

// credited moves a due moment for stalls. It adds the credit of the stalls since the silence began. The result lies
// outside the grace after the newest stall, and at the latest a full timeout after that stall's end.
func (p *protocol) credited(s *stalls, due uint8) uint8 {
	end, since := s.newest(), due-p.scope.Timeout
	if end == 0 || end <= since {
		return due
	}
	credit := s.since(since)
	if !p.Obeys(E1Credit) {
		credit = 0
	}
	return max(due, min(max(due+credit, end+p.grace()), end+p.scope.Timeout))
}
