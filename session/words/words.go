// Package words explains to people, in sentences, what keeps a session alive and why it ended, and formats labels,
// times and sizes for the command line and the console.
package words

import (
	"fmt"

	"holdfast/session"
	"holdfast/tree"
)

// sentences collects an explanation.
type sentences []string

func (s *sentences) add(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

// Alive explains a living session.
func Alive(one *session.Session, v *session.Vigil) []string {
	var s sentences
	s.add("Session %v is alive. Its timeout is %s. Node %d serves it.", one.ID, Span(one.Timeout), one.Owner)
	if v.Closing {
		s.add("The session is closing: its end is being committed.")
	}
	if one.Local {
		s.add("The session is local: only node %d knows it and decides when it ends.", one.Owner)
		frozenFor(&s, v)
		s.add("Its newest touch is %s old. It expires in %s unless another touch is received.",
			Span(v.LastTouchAge), Span(v.Remaining))
		return s
	}
	s.add("Node %d decides when it expires: it has been the leader of term %d for %s.", v.Leader, v.Term, Span(v.Led))
	switch {
	case v.LastTouchAge < 0:
		s.add("The leader has received no touch in its term. The full timeout runs from the last moment at which the "+
			"leader confirms node %d, %s ago.", one.Owner, Span(v.VouchedAge))
	case v.LastTouchAge > v.VouchedAge:
		s.add("The newest touch that the leader knows of is %s old. The full timeout runs from a later moment, %s ago: "+
			"the start of the leader's term or of the owner's process, the last contact with the owner, or the end of "+
			"a freeze.",
			Span(v.LastTouchAge), Span(v.VouchedAge))
	default:
		s.add("The newest touch that the leader knows of is %s old. Node %d may have received a newer one.",
			Span(v.LastTouchAge), one.Owner)
	}
	if v.Silent > 0 {
		s.add("The leader cannot reach node %d: last contact %s ago. Clients move their sessions to other nodes.",
			one.Owner, Span(v.Silent))
	}
	if v.Credit > 0 {
		s.add("It is due %s later than that, because node %d was paused.", Span(v.Credit), one.Owner)
	}
	if v.Credited > 0 {
		s.add("In this term %s did not count as elapsed time, because the leader had no quorum or was paused.",
			Span(v.Credited))
	}
	if v.Kept > 0 {
		s.add("An operator extended it: it does not expire within %s.", Span(v.Kept))
	}
	frozenFor(&s, v)
	s.add("It expires in %s unless another touch is received.", Span(v.Remaining))
	return s
}

// frozenFor adds that expiry is frozen.
func frozenFor(s *sentences, v *session.Vigil) {
	if v.Frozen > 0 {
		s.add("An operator froze expiry for %s more. Each session then has its full timeout.", Span(v.Frozen))
	}
}

// Ended explains the end of a session.
func Ended(c *session.Certificate) []string {
	var s sentences
	s.add("Session %v ended at %s: %s.", c.ID, Moment(c.EndedAt), Cause(c))
	s.add("It was opened at %s with a timeout of %s. Labels: %s.", Moment(c.Story.OpenedAt),
		Span(c.Story.Timeout), Labels(c.Story.Labels))
	lastContact(&s, c)
	credits(&s, c)
	if c.Index != 0 {
		s.add("Its end is log entry %d. The leader of term %d decided it.", c.Index, c.Term)
	} else {
		s.add("The session was local: only node %d knew it and decided its end.", c.Owner)
	}
	entriesAndWill(&s, c)
	clientLog(&s, c)
	return s
}

// clientLog adds where to find the client's address and name, which no certificate has.
func clientLog(s *sentences, c *session.Certificate) {
	switch {
	case c.Cause != session.CauseExpired:
	case c.Story.Silent > 0:
		s.add("If its process kept running, the log of node %d has the client's address and name: look for \"session "+
			"expired\" with this ID.", c.Owner)
	default:
		s.add("The log of node %d has the client's address and name: look for \"session expired\" with this ID.", c.Owner)
	}
}

// Cause explains the cause of an end.
func Cause(c *session.Certificate) string {
	switch c.Cause {
	case session.CauseClosed:
		return "its client closed it"
	case session.CauseExpired:
		return "it expired, because its timeout passed without a touch"
	case session.CauseKilled:
		text := "an operator killed it"
		if c.Story.By != "" {
			text += fmt.Sprintf(" (%s)", c.Story.By)
		}
		if c.Story.Why != "" {
			text += fmt.Sprintf(", reason: %q", c.Story.Why)
		}
		return text
	default:
		return "unknown cause"
	}
}

// lastContact adds the last touch and the time since the last contact with the owner.
func lastContact(s *sentences, c *session.Certificate) {
	if c.LastTouchAge < 0 {
		s.add("The leader had received no touch in its term. Node %d served the session.", c.Owner)
	} else {
		s.add("The last touch that the leader knew of was %s earlier, at about %s, through node %d.",
			Span(c.LastTouchAge), Moment(c.EndedAt.Add(-c.LastTouchAge)), c.Owner)
	}
	if c.Story.Silent > 0 {
		s.add("The leader could not reach node %d: last contact %s earlier.", c.Owner, Span(c.Story.Silent))
	}
}

// credits adds the credited time, and how late the end was.
func credits(s *sentences, c *session.Certificate) {
	if c.Story.Credit > 0 {
		s.add("It was due %s later, because node %d had been paused.", Span(c.Story.Credit), c.Owner)
	}
	if c.Credited > 0 {
		s.add("In that leader's term %s did not count as elapsed time, because the leader had no quorum or was paused.",
			Span(c.Credited))
	}
	if c.Cause == session.CauseExpired {
		s.add("The decision came %s after the due time.", Span(c.Story.Late))
	}
}

// entriesAndWill adds what happened to the session's entries and its will.
func entriesAndWill(s *sentences, c *session.Certificate) {
	if c.Left.Ephemerals > 0 {
		s.add("It had %d ephemeral entries.", c.Left.Ephemerals)
	}
	switch c.Left.Will {
	case tree.WillCarriedOut:
		s.add("Its will was carried out.")
	case tree.WillRefused:
		s.add("Its will was refused: a condition of the will did not hold.")
	case tree.WillDropped:
		s.add("Its will was dropped: it applies only to an expiry.")
	default:
	}
}
