// Package words says in sentences for people what keeps a session alive and why it ended, and writes labels, times and
// sizes as the command line and the console show them.
package words

import (
	"fmt"

	"holdfast/session"
	"holdfast/tree"
)

// sentences collects an explanation.
type sentences []string

func (s *sentences) say(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

// Alive explains a session that lives.
func Alive(one *session.Session, v *session.Vigil) []string {
	var s sentences
	s.say("Session %v lives. Its timeout is %s, and node %d serves it.", one.ID, Span(one.Timeout), one.Owner)
	if v.Closing {
		s.say("Its end is on its way to the log: it ends within moments, unless the log refuses that.")
	}
	if one.Local {
		s.say("It is a local session: node %d alone knows it, and decides when it ends.", one.Owner)
		frozenFor(&s, v)
		s.say("Its newest touch is %s old. It expires %s from now if nothing more is heard of it.",
			Span(v.LastTouchAge), Span(v.Remaining))
		return s
	}
	s.say("Node %d decides, as the leader of term %d, which it has led for %s.", v.Leader, v.Term, Span(v.Led))
	switch {
	case v.LastTouchAge < 0:
		s.say("The leader has heard of no touch in its term: the session has had its full timeout from the moment for "+
			"which the leader vouches, %s ago.", Span(v.VouchedAge))
	case v.LastTouchAge > v.VouchedAge:
		s.say("The newest touch that the leader has heard of is %s old. The session has its full timeout from a later "+
			"moment, %s ago: the leader's term or its node's process began then, its node fell silent, or a freeze "+
			"ended.",
			Span(v.LastTouchAge), Span(v.VouchedAge))
	default:
		s.say("The newest touch that the leader has heard of is %s old; node %d may have had a newer one since.",
			Span(v.LastTouchAge), one.Owner)
	}
	if v.Silent > 0 {
		s.say("The leader has lost node %d: it has been silent for %s. Clients move their sessions to other nodes.",
			one.Owner, Span(v.Silent))
	}
	if v.Credit > 0 {
		s.say("It is due %s later than that, because node %d did not run for a while.", Span(v.Credit), one.Owner)
	}
	if v.Credited > 0 {
		s.say("In this term %s counted against no session, because the leader had no quorum or did not run.",
			Span(v.Credited))
	}
	if v.Kept > 0 {
		s.say("An operator has extended it: it does not expire within %s.", Span(v.Kept))
	}
	frozenFor(&s, v)
	s.say("It expires %s from now if nothing more is heard of it.", Span(v.Remaining))
	return s
}

// frozenFor says that nothing expires.
func frozenFor(s *sentences, v *session.Vigil) {
	if v.Frozen > 0 {
		s.say("An operator has frozen the cluster: nothing expires for %s, unless it is thawed before. Then each session "+
			"has its full timeout.", Span(v.Frozen))
	}
}

// Ended explains the end of a session.
func Ended(c *session.Certificate) []string {
	var s sentences
	s.say("Session %v ended at %s: %s.", c.ID, Moment(c.EndedAt), Cause(c))
	s.say("It had been opened at %s with a timeout of %s. Labels: %s.", Moment(c.Story.OpenedAt),
		Span(c.Story.Timeout), Labels(c.Story.Labels))
	heard(&s, c)
	credits(&s, c)
	if c.Index != 0 {
		s.say("Its end is entry %d of the log. The leader of term %d decided it.", c.Index, c.Term)
	} else {
		s.say("It was a local session: node %d alone knew it and decided.", c.Owner)
	}
	leftBehind(&s, c)
	whose(&s, c)
	return s
}

// whose says where to find the client's address and name, which no certificate has.
func whose(s *sentences, c *session.Certificate) {
	switch {
	case c.Cause != session.CauseExpired:
	case c.Story.Silent > 0:
		s.say("The log of node %d has the address and the name of its client, at \"session expired\" with this id, if that "+
			"process went on.", c.Owner)
	default:
		s.say("The log of node %d has the address and the name of its client, at \"session expired\" with this id.", c.Owner)
	}
}

// Cause says why a session ended.
func Cause(c *session.Certificate) string {
	switch c.Cause {
	case session.CauseClosed:
		return "its client closed it"
	case session.CauseExpired:
		return "it expired, because nothing was heard of it for its timeout"
	case session.CauseKilled:
		text := "an operator ended it"
		if c.Story.By != "" {
			text += fmt.Sprintf(" (%s)", c.Story.By)
		}
		if c.Story.Why != "" {
			text += fmt.Sprintf(" and gave the reason %q", c.Story.Why)
		}
		return text
	default:
		return "for a reason that this program does not know"
	}
}

// heard says who was heard last, and when.
func heard(s *sentences, c *session.Certificate) {
	if c.LastTouchAge < 0 {
		s.say("The leader had heard of no touch in its term. Node %d served the session.", c.Owner)
	} else {
		s.say("Its last touch that the leader knew of was %s before, at about %s, through node %d.",
			Span(c.LastTouchAge), Moment(c.EndedAt.Add(-c.LastTouchAge)), c.Owner)
	}
	if c.Story.Silent > 0 {
		s.say("The leader had lost node %d, which had been silent for %s.", c.Owner, Span(c.Story.Silent))
	}
}

// credits says which time was credited, and how late the end was.
func credits(s *sentences, c *session.Certificate) {
	if c.Story.Credit > 0 {
		s.say("It was given %s more, because node %d had not run for a while.", Span(c.Story.Credit), c.Owner)
	}
	if c.Credited > 0 {
		s.say("Since that leader's term began, %s had counted against no session: it had no quorum then, or did not run.",
			Span(c.Credited))
	}
	if c.Cause == session.CauseExpired {
		s.say("The decision came %s after the session was due.", Span(c.Story.Late))
	}
}

// leftBehind says what became of the session's entries and its will.
func leftBehind(s *sentences, c *session.Certificate) {
	if c.Left.Ephemerals > 0 {
		s.say("%d ephemeral entries of the tree went with it.", c.Left.Ephemerals)
	}
	switch c.Left.Will {
	case tree.WillCarriedOut:
		s.say("Its will was carried out.")
	case tree.WillRefused:
		s.say("Its will was refused: the tree was not as the will had it.")
	case tree.WillDropped:
		s.say("Its will was dropped: it was for another end than this.")
	default:
	}
}
