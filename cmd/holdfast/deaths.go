package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

func (c *cli) sessionDeaths() *cobra.Command {
	var since, until time.Duration
	var owner uint8
	var labels []string
	var cause string
	var most int
	var o client.DeathOptions
	cmd := &cobra.Command{
		Use: "deaths", Short: "List the sessions that have ended, with their causes", Args: noArgs,
		Long: `List the sessions that have ended, the newest end first. The cluster keeps the newest 100,000
certificates for 7 days, or fewer if they need too much memory, and each node the newest 10,000 of
its local sessions. A line on the standard error says so when older ends would match. The times are
those of the leaders that decided.`,
		Example: `  holdfast session deaths --since 1h
  holdfast session deaths --since 3h --until 2h
  holdfast session deaths --since 24h --cause killed --label service=web`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := selectedLabels(labels)
			if err != nil {
				return err
			}
			var known bool
			if o.Cause, known = causes()[cause]; !known {
				return usage("--cause %q: want any, closed, expired or killed", cause)
			}
			if o.Labels, err = session.NewLabels(filter); err != nil {
				return usage("--label: %w", err)
			}
			o.Owner, o.PageSize = session.Node(owner), session.MaxPage
			if since > 0 && until >= since {
				return usage("--until %v: want less than --since %v, because both count back from now", until, since)
			}
			now := time.Now()
			if since > 0 {
				o.Since = now.Add(-since)
			}
			if until > 0 {
				o.Until = now.Add(-until)
			}
			all, err := c.deaths(cmd.Context(), o, most)
			if err != nil {
				return err
			}
			return printDeaths(c.out, all)
		},
	}
	flags := cmd.Flags()
	flags.Var(arg.NotNegative(&since, 0), "since", "how far back; 0 for all that is kept")
	flags.Var(arg.NotNegative(&until, 0), "until", "leave out the ends of this time up to now; 0 for none")
	flags.Var(arg.Whole(&owner, 0, 0, uint8(session.MaxNode)), "owner",
		fmt.Sprintf("number of the node that served the session, 1 to %d; 0 for any", session.MaxNode))
	flags.StringArrayVar(&labels, "label", nil, "label KEY=VALUE, or KEY for any value; may be repeated")
	flags.StringVar(&cause, "cause", "any", "cause of the end: any, closed, expired or killed")
	flags.BoolVar(&o.Local, "local", false, "list the local sessions of the node that answers")
	flags.Var(arg.Whole(&most, 0, 0, 1<<30), "limit", "the largest number of lines; 0 for no bound")
	completeWords(cmd, "cause", "any", "closed", "expired", "killed")
	return cmd
}

// causes are the values of --cause.
func causes() map[string]session.Cause {
	return map[string]session.Cause{
		"any": 0, "closed": session.CauseClosed, "expired": session.CauseExpired, "killed": session.CauseKilled,
	}
}

// deaths gathers all pages, each with the time limit of a call, up to most certificates unless that is 0.
func (c *cli) deaths(ctx context.Context, o client.DeathOptions, most int) ([]session.Certificate, error) {
	var all []session.Certificate
	err := c.target.with(func(cl *client.Client) error {
		for {
			page, err := onePage(ctx, c.target, func(ctx context.Context) (client.DeathPage, error) { return cl.Deaths(ctx, o) })
			if err != nil {
				return err
			}
			all = append(all, page.Certificates...)
			if most > 0 && len(all) >= most {
				all = all[:most]
				return nil
			}
			if page.Forgotten {
				c.out.complain("holdfast: the certificates of older ends are no longer kept\n")
			}
			if page.Next == "" {
				return nil
			}
			o.PageToken = page.Next
		}
	})
	return all, err
}

// onePage makes a call with the time limit of one.
func onePage[T any](ctx context.Context, t *target, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	return call(ctx)
}

func printDeaths(out *printer, all []session.Certificate) error {
	headers := []string{
		"ENDED", "ID", "CAUSE", "NODE", "LAST TOUCH", "TIMEOUT", "LATE", "EPHEMERALS", "LABELS",
		"BY", "WHY",
	}
	rows := make([][]string, len(all))
	views := make([]certificateView, len(all))
	for i := range all {
		one, late := &all[i], time.Duration(-1)
		if one.Cause == session.CauseExpired {
			late = one.Story.Late
		}
		views[i] = viewCertificate(*one)
		rows[i] = []string{
			words.Moment(one.EndedAt), one.ID.String(), one.Cause.String(), number(one.Owner), words.Span(one.LastTouchAge),
			words.Span(one.Story.Timeout), words.Span(late), number(one.Left.Ephemerals), words.Labels(one.Story.Labels),
			words.OrDash(one.Story.By), words.OrDash(one.Story.Why),
		}
	}
	return out.print(views, func() string { return columns(headers, rows) })
}
