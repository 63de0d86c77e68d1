package leader

import (
	"time"

	"holdfast/session"
)

// stalls are the stalls of a node's process, as its answers report them (E1).
type stalls struct {
	// known are the stalls of this term.
	known *session.Stalls
	// process is the process that answered last, at heard. credit is the sum of credits that it reported.
	process       session.Hello
	credit, heard time.Duration
}

// hear takes the report of a whole answer that arrived at now. All stalls that are new in it count as one stall, which
// ended with the newest. Its credit is at most the time on the leader's clock since the answer before, plus the grace:
// no session lost more, however long the stall was on the owner's clocks.
func (s *stalls) hear(from session.Hello, a *session.Answer, now, grace time.Duration) {
	from.Stream = 0
	if from != s.process {
		s.process, s.credit = from, 0
	}
	more := min(a.Credit-s.credit, now-s.heard+grace)
	s.credit, s.heard = max(s.credit, a.Credit), now
	if end := now - a.VouchAge; more > 0 && end >= 0 {
		s.known = s.known.With(end, more, grace) // a stall that ended before the term is ignored (E1)
	}
}
