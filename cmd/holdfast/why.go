package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/tree"
)

func (c *cli) sessionWhy() *cobra.Command {
	return &cobra.Command{
		Use: "why ID", Short: "Say in words what keeps a session alive, or why it ended", Args: arg.One("ID"),
		Long: `Say in words what keeps a session alive and when it would end, or why it ended: who was heard
last, when, who decided, which time was credited, and what became of its entries of the tree.

The facts are those of the leader and of the certificate, which -o json shows as they are. The exit
code is 1 when the cluster knows neither: the id was never given out, or the session ended long ago.`,
		Example: `  holdfast session why 0x01004f2a3c5d0001
  holdfast session deaths --since 1h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := idArgument(args[0])
			if err != nil {
				return err
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				e, err := cl.Explain(ctx, id)
				if err != nil {
					return err
				}
				if e.Certificate != nil {
					v := whyView{Certificate: new(viewCertificate(*e.Certificate)), Why: whyEnded(e.Certificate)}
					return c.out.print(v, func() string { return escapedLines(v.Why) })
				}
				v := whyView{
					Session: new(viewSession(e.Session, e.Vigil.Remaining)), Vigil: viewVigil(&e.Vigil),
					Why: whyAlive(&e.Session, &e.Vigil),
				}
				return c.out.print(v, func() string { return escapedLines(v.Why) })
			})
		},
	}
}

// idArgument reads a session id given as an argument.
func idArgument(word string) (session.ID, error) {
	if isToken(word) {
		return 0, usage(tokenAsID)
	}
	id, err := session.ParseID(word)
	if err != nil {
		return 0, usage("ID %q: %w", word, err)
	}
	return id, nil
}

// whyView explains a session in JSON. Why is the explanation in words, a sentence in each.
type whyView struct {
	Session     *sessionView     `json:"session,omitempty"`
	Vigil       *vigilView       `json:"vigil,omitempty"`
	Certificate *certificateView `json:"certificate,omitempty"`
	Why         []string         `json:"why"`
}

// vigilView is a vigil in JSON. What is unknown is absent.
type vigilView struct {
	Leader         session.Node `json:"leader,omitempty"`
	Term           uint64       `json:"term,omitempty"`
	LedMS          int64        `json:"led_ms,omitempty"`
	RemainingMS    int64        `json:"remaining_ms"`
	LastTouchAgeMS *int64       `json:"last_touch_age_ms,omitempty"`
	VouchedAgeMS   *int64       `json:"vouched_age_ms,omitempty"`
	CreditMS       int64        `json:"credit_ms,omitempty"`
	OwnerSilentMS  int64        `json:"owner_silent_ms,omitempty"`
	Closing        bool         `json:"closing,omitempty"`
	CreditedMS     int64        `json:"credited_ms,omitempty"`
	FrozenMS       int64        `json:"frozen_ms,omitempty"`
	KeptMS         int64        `json:"kept_ms,omitempty"`
}

func viewVigil(v *session.Vigil) *vigilView {
	return &vigilView{
		Leader: v.Leader, Term: v.Term, LedMS: v.Led.Milliseconds(), RemainingMS: v.Remaining.Milliseconds(),
		LastTouchAgeMS: knownMS(v.LastTouchAge), VouchedAgeMS: knownMS(v.VouchedAge), CreditMS: v.Credit.Milliseconds(),
		OwnerSilentMS: v.Silent.Milliseconds(), Closing: v.Closing, CreditedMS: v.Credited.Milliseconds(),
		FrozenMS: v.Frozen.Milliseconds(), KeptMS: v.Kept.Milliseconds(),
	}
}

// knownMS returns a duration in milliseconds, nil for a negative one, which is unknown.
func knownMS(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	return new(d.Milliseconds())
}

// escapedLines returns sentences as lines. Labels and names are any text that a client chose.
func escapedLines(sentences []string) string {
	lines := make([]string, len(sentences))
	for i, s := range sentences {
		lines[i] = escaped(s)
	}
	return strings.Join(lines, "\n")
}

// sentences collects an explanation.
type sentences []string

func (s *sentences) say(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

// whyAlive explains a session that lives.
func whyAlive(one *session.Session, v *session.Vigil) []string {
	var s sentences
	s.say("Session %v lives. Its timeout is %s, and node %d serves it.", one.ID, spanText(one.Timeout), one.Owner)
	if v.Closing {
		s.say("Its end is on its way to the log: it ends within moments, unless the log refuses that.")
	}
	if one.Local {
		s.say("It is a local session: node %d alone knows it, and decides when it ends.", one.Owner)
		frozenFor(&s, v)
		s.say("Its newest touch is %s old. It expires %s from now if nothing more is heard of it.",
			spanText(v.LastTouchAge), spanText(v.Remaining))
		return s
	}
	s.say("Node %d decides, as the leader of term %d, which it has led for %s.", v.Leader, v.Term, spanText(v.Led))
	switch {
	case v.LastTouchAge < 0:
		s.say("The leader has heard of no touch in its term: the session has had its full timeout from the moment for "+
			"which the leader vouches, %s ago.", spanText(v.VouchedAge))
	case v.LastTouchAge > v.VouchedAge:
		s.say("The newest touch that the leader has heard of is %s old. The session has its full timeout from a later "+
			"moment, %s ago: the leader's term or its node's process began then, its node fell silent, or a freeze "+
			"ended.",
			spanText(v.LastTouchAge), spanText(v.VouchedAge))
	default:
		s.say("The newest touch that the leader has heard of is %s old; node %d may have had a newer one since.",
			spanText(v.LastTouchAge), one.Owner)
	}
	if v.Silent > 0 {
		s.say("The leader has lost node %d: it has been silent for %s. Clients move their sessions to other nodes.",
			one.Owner, spanText(v.Silent))
	}
	if v.Credit > 0 {
		s.say("It is due %s later than that, because node %d did not run for a while.", spanText(v.Credit), one.Owner)
	}
	if v.Credited > 0 {
		s.say("In this term %s counted against no session, because the leader had no quorum or did not run.",
			spanText(v.Credited))
	}
	if v.Kept > 0 {
		s.say("An operator has extended it: it does not expire within %s.", spanText(v.Kept))
	}
	frozenFor(&s, v)
	s.say("It expires %s from now if nothing more is heard of it.", spanText(v.Remaining))
	return s
}

// frozenFor says that nothing expires.
func frozenFor(s *sentences, v *session.Vigil) {
	if v.Frozen > 0 {
		s.say("An operator has frozen the cluster: nothing expires for %s, unless it is thawed before. Then each session "+
			"has its full timeout.", spanText(v.Frozen))
	}
}

// whyEnded explains the end of a session.
func whyEnded(c *session.Certificate) []string {
	var s sentences
	s.say("Session %v ended at %s: %s.", c.ID, timeText(c.EndedAt), causeText(c))
	if !c.Story.None() {
		s.say("It had been opened at %s with a timeout of %s. Labels: %s.", timeText(c.Story.OpenedAt),
			spanText(c.Story.Timeout), labelText(c.Story.Labels))
	}
	heard(&s, c)
	credits(&s, c)
	if c.Index != 0 {
		s.say("Its end is entry %d of the log. The leader of term %d decided it.", c.Index, c.Term)
	} else {
		s.say("It was a local session: node %d alone knew it and decided.", c.Owner)
	}
	leftBehind(&s, c)
	if c.Story.None() {
		s.say("The certificate is from before feature level %d: it does not tell the session's timeout and labels, nor how "+
			"late the end was.", session.AdminLevel)
	}
	return s
}

// causeText says why a session ended.
func causeText(c *session.Certificate) string {
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
			spanText(c.LastTouchAge), timeText(c.EndedAt.Add(-c.LastTouchAge)), c.Owner)
	}
	if c.Story.Silent > 0 {
		s.say("The leader had lost node %d, which had been silent for %s.", c.Owner, spanText(c.Story.Silent))
	}
}

// credits says which time was credited, and how late the end was.
func credits(s *sentences, c *session.Certificate) {
	if c.Story.Credit > 0 {
		s.say("It was given %s more, because node %d had not run for a while.", spanText(c.Story.Credit), c.Owner)
	}
	if c.Credited > 0 {
		s.say("Since that leader's term began, %s had counted against no session: it had no quorum then, or did not run.",
			spanText(c.Credited))
	}
	if c.Cause == session.CauseExpired && !c.Story.None() {
		s.say("The decision came %s after the session was due.", spanText(c.Story.Late))
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
