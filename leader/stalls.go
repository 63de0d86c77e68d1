package leader

import (
	"time"

	"holdfast/session"
)

// stalls is what a node's answers say of the stalls of its process (E1).
type stalls struct {
	// known are those of this term.
	known *session.Stalls
	// process is the one that answered last, at heard; credit is the sum that it told.
	process       session.Hello
	credit, heard time.Duration
}

// hear takes what a whole answer says that arrived at now. All stalls that are new in it count as one that ended with
// the newest. The credit is at most the time since the answer before, on the leader's clock, and the grace: no
// session lost more, however long the stall was on the owner's clocks.
func (s *stalls) hear(from session.Hello, a *session.Answer, now, grace time.Duration) {
	from.Stream = 0
	if from != s.process {
		s.process, s.credit = from, 0
	}
	more := min(a.Credit-s.credit, now-s.heard+grace)
	s.credit, s.heard = max(s.credit, a.Credit), now
	if end := now - a.VouchAge; more > 0 && end >= 0 {
		s.known = s.known.With(end, more, grace) // one that ended before the term began matters to nobody (E1)
	}
}
