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

// deathsFlags are the flags of "session deaths".
type deathsFlags struct {
	since, until time.Duration
	owner        uint8
	labels       []string
	cause        string
	local        bool
	limit        int
}

func newDeaths(env *cli.Env) *cobra.Command {
	var f deathsFlags
	cmd := &cobra.Command{
		Use: "deaths", Short: "List the sessions that have ended, with their causes", Args: cli.NoArgs,
		Long: `List the sessions that have ended, the newest first. The cluster keeps the newest 100,000 death
certificates for 7 days, or fewer if they need too much memory, and each node the newest 10,000 of
its local sessions. When older sessions would match, a line on the standard error says that their
certificates are no longer kept. The times are those of the leaders that decided.`,
		Example: `  holdfast session deaths --since 1h
  holdfast session deaths --since 3h --until 2h
  holdfast session deaths --since 24h --cause killed --label service=web`,
		RunE: cli.Run(env, &f, runDeaths),
	}
	cli.AddOwnerFlag(cmd, &f.owner)
	flags := cmd.Flags()
	flags.Var(arg.NotNegative(&f.since, 0), "since", "how far back from now; 0 for all that is kept")
	flags.Var(arg.NotNegative(&f.until, 0), "until", "leave out this time before now; 0 for none")
	flags.StringArrayVar(&f.labels, "label", nil, cli.SelectLabelHelp)
	flags.StringVar(&f.cause, "cause", "any", "cause of the end: any, closed, expired or killed")
	flags.BoolVar(&f.local, "local", false, "list the local sessions of the node that answers")
	flags.Var(arg.Whole(&f.limit, 0, 0, 1<<30), "limit", "maximum number of sessions; 0 for all")
	cli.CompleteWords(cmd, "cause", "any", "closed", "expired", "killed")
	return cmd
}

// options returns the options from the flags.
func (f *deathsFlags) options() (client.DeathOptions, error) {
	o := client.DeathOptions{PageSize: session.MaxPage}
	o.Owner, o.Local = session.Node(f.owner), f.local
	labels, err := cli.SelectLabels(f.labels)
	if err != nil {
		return o, err
	}
	if o.Labels, err = session.NewLabels(labels); err != nil {
		return o, cli.Usage("--label: %w", err)
	}
	var known bool
	if o.Cause, known = causes()[f.cause]; !known {
		return o, cli.Usage("--cause %q: want any, closed, expired or killed", f.cause)
	}
	if f.since > 0 && f.until >= f.since {
		return o, cli.Usage("--until %v: want less than --since %v: both count back from now", f.until, f.since)
	}
	now := time.Now()
	if f.since > 0 {
		o.Since = now.Add(-f.since)
	}
	if f.until > 0 {
		o.Until = now.Add(-f.until)
	}
	return o, nil
}

// causes are the values of --cause.
func causes() map[string]session.Cause {
	return map[string]session.Cause{
		"any": 0, "closed": session.CauseClosed, "expired": session.CauseExpired, "killed": session.CauseKilled,
	}
}

func runDeaths(ctx context.Context, env *cli.Env, f *deathsFlags, _ []string) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	all, err := listDeaths(ctx, env, o, f.limit)
	if err != nil {
		return err
	}
	return printDeaths(env, all)
}

// listDeaths reads pages, each with the time limit of a call, until it has all certificates or the limit; 0 is no
// limit.
func listDeaths(ctx context.Context, env *cli.Env, o client.DeathOptions, limit int) ([]session.Certificate, error) {
	var all []session.Certificate
	err := env.Cluster.Connect(func(cl *client.Client) error {
		for {
			page, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.DeathPage, error) {
				return cl.Deaths(ctx, o)
			})
			if err != nil {
				return err
			}
			all = append(all, page.Certificates...)
			if limit > 0 && len(all) >= limit {
				all = all[:limit]
				return nil
			}
			if page.Forgotten {
				env.Out.Messagef("holdfast: certificates of older sessions are no longer kept\n")
			}
			if page.Next == "" {
				return nil
			}
			o.PageToken = page.Next
		}
	})
	return all, err
}

func printDeaths(env *cli.Env, all []session.Certificate) error {
	headers := []string{
		"ENDED", "ID", "CAUSE", "NODE", "LAST TOUCH", "TIMEOUT", "LATE", "EPHEMERALS", "LABELS",
		"BY", "REASON",
	}
	rows := make([][]string, len(all))
	views := make([]view.Certificate, len(all))
	for i := range all {
		one, late := &all[i], time.Duration(-1)
		if one.Cause == session.CauseExpired {
			late = one.Story.Late
		}
		views[i] = view.NewCertificate(*one)
		rows[i] = []string{
			words.Moment(one.EndedAt), one.ID.String(), one.Cause.String(), cli.Number(one.Owner), words.Span(one.LastTouchAge),
			words.Span(one.Story.Timeout), words.Span(late), cli.Number(one.Left.Ephemerals), words.Labels(one.Story.Labels),
			words.OrDash(one.Story.By), words.OrDash(one.Story.Why),
		}
	}
	return env.Out.Print(views, func() string { return cli.Table(headers, rows) })
}
