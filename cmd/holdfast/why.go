package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

func (c *cli) sessionWhy() *cobra.Command {
	return &cobra.Command{
		Use: "why ID", Short: "Say in words what keeps a session alive, or why it ended", Args: arg.One("ID"),
		Long: `Say in words what keeps a session alive and when it would end, or why it ended: who was heard
last, when, who decided, which time was credited, and what became of its entries of the tree. Of a
session that lives, the node that serves it says where its client is, and who it is.

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
					v := whyView{Certificate: new(viewCertificate(*e.Certificate)), Why: words.Ended(e.Certificate)}
					return c.out.print(v, func() string { return escapedLines(v.Why) })
				}
				v := whyView{
					Session: new(viewSession(e.Session, e.Vigil.Remaining)), Vigil: viewVigil(&e.Vigil),
					Why: words.Alive(&e.Session, &e.Vigil),
				}
				v.tellClient(ctx, cl, &e.Session)
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
	Client      *connectionView  `json:"client,omitempty"`
	Why         []string         `json:"why"`
}

// clientWait bounds the wait for the node that serves a session: what the leader knows is said in any case.
const clientWait = 2 * time.Second

// tellClient adds what the node that serves a session knows of its client.
func (v *whyView) tellClient(ctx context.Context, cl *client.Client, s *session.Session) {
	ctx, cancel := context.WithTimeout(ctx, clientWait)
	defer cancel()
	c, err := client.ConnectionOf(ctx, cl, s.ID, s.Owner)
	if err != nil {
		v.Why = append(v.Why, words.Unserved(s.Owner, err))
		return
	}
	v.Client = new(viewConnection(&c))
	v.Why = append(v.Why, words.Served(&words.Client{
		Address: c.Address, Protocol: c.Protocol, Name: c.Name, Verified: c.Verified, Principals: c.Principals,
		Since: c.Since, Sessions: c.Sessions, Watches: c.Watches,
	}))
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
