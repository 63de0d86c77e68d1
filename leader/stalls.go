package leader

import (
	"time"

	"holdfast/session"
)

// stalls are the stalls of a node's process, from the reports in its answers (E1 full timeout after a change of
// leader).
type stalls struct {
	// known are the stalls of this term.
	known *session.Stalls
	// process is the process that sent the newest answer, at received. credit is the sum of credits that it has
	// reported.
	process          session.Hello
	credit, received time.Duration
}

// recordAnswer processes the report of a complete answer that arrived at now. All new stalls in the report count as one
// stall that ended with the newest. Its credit is at most the time on the leader's clock since the previous answer,
// plus the grace: no session lost more, however long the stall was on the owner's clocks.
func (s *stalls) recordAnswer(from session.Hello, a *session.Answer, now, grace time.Duration) {
	from.Stream = 0
	if from != s.process {
		s.process, s.credit = from, 0
	}
	more := min(a.Credit-s.credit, now-s.received+grace)
	s.credit, s.received = max(s.credit, a.Credit), now
	if end := now - a.StallAge; more > 0 && end >= 0 {
		s.known = s.known.With(end, more, grace) // ignores a stall that ended before the term (E1)
	}
}
