package session

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

func newExplain(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "explain ID", Short: "Explain what keeps a session alive, or why it ended", Args: arg.One("ID"),
		Long: `Explain what keeps a session alive and when it would expire, or why it ended: the last touch, who
decided and when, the time that was credited, and what happened to its entries of the tree. For a
live session, the node that serves it adds the address and name of its client.

The facts come from the leader and from the death certificate; -o json shows them as fields. The
exit code is 1 when the cluster knows neither: no session ever had the id, or the session ended long
ago.`,
		Example: `  holdfast session explain 0x01004f2a3c5d0001
  holdfast session deaths --since 1h`,
		RunE: cli.Run(env, &cli.NoFlags{}, runExplain),
	}
}

func runExplain(ctx context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
	id, err := cli.ParseID(args[0])
	if err != nil {
		return err
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		e, err := cl.Explain(ctx, id)
		if err != nil {
			return err
		}
		var v explainView
		if e.Certificate != nil {
			v = explainView{Certificate: new(view.NewCertificate(*e.Certificate)), Why: words.Ended(e.Certificate)}
		} else {
			v = explainView{
				Session: new(view.NewSession(e.Session, e.Vigil.Remaining)), Vigil: viewVigil(&e.Vigil),
				Why: words.Alive(&e.Session, &e.Vigil),
			}
			v.addClient(ctx, cl, &e.Session)
		}
		return env.Out.Print(v, func() string { return cli.EscapeLines(v.Why) })
	})
}

// explainView explains a session in JSON. Why has a sentence in each element.
type explainView struct {
	Session     *view.Session     `json:"session,omitempty"`
	Vigil       *vigilView        `json:"vigil,omitempty"`
	Certificate *view.Certificate `json:"certificate,omitempty"`
	Client      *view.Connection  `json:"client,omitempty"`
	Why         []string          `json:"why"`
}

// clientTimeout bounds the wait for the node that serves a session. When it passes, the output has the leader's facts
// alone.
const clientTimeout = 2 * time.Second

// addClient adds the client of a session, as the node that serves the session knows it.
func (v *explainView) addClient(ctx context.Context, cl *client.Client, s *session.Session) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	c, err := client.ConnectionOf(ctx, cl, s.ID, s.Owner)
	if err != nil {
		v.Why = append(v.Why, words.Unserved(s.Owner, err))
		return
	}
	v.Client = new(view.NewConnection(&c))
	v.Why = append(v.Why, words.Served(&words.Client{
		Address: c.Address, Protocol: c.Protocol, Name: c.Name, Verified: c.Verified, Principals: c.Principals,
		Since: c.Since, Sessions: c.Sessions, Watches: c.Watches,
	}))
}

// vigilView is the leader's view of a live session, in JSON. Unknown values are absent.
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
		LastTouchAgeMS: view.Millis(v.LastTouchAge), VouchedAgeMS: view.Millis(v.VouchedAge),
		CreditMS:      v.Credit.Milliseconds(),
		OwnerSilentMS: v.Silent.Milliseconds(), Closing: v.Closing, CreditedMS: v.Credited.Milliseconds(),
		FrozenMS: v.Frozen.Milliseconds(), KeptMS: v.Kept.Milliseconds(),
	}
}
