package session

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

// Orders of "session ls".
const (
	byID        = "id"
	byRemaining = "remaining"
)

// listFlags are the flags of "session ls".
type listFlags struct {
	owner         uint8
	labels        []string
	scope, sortBy string
	limit         int

	minAge, maxAge, minRemaining, maxRemaining time.Duration
}

func newList(env *cli.Env) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use: "ls", Short: "List sessions", Args: cli.NoArgs,
		Long: `List all sessions that match every filter, sorted by id. REMAINING is the time until the session
expires without a touch, as the leader sees it.

A node lists only its own local sessions, so the list lacks the local sessions of all nodes but the
node that answers. Name that node with --endpoints.

With --sort-by remaining the sessions that expire first come first.

` + readOnlyHelp,
		Example: `  holdfast session ls --owner 1 --label service=web
  holdfast session ls --max-remaining 2s
  holdfast session ls --sort-by remaining --limit 10
  holdfast session ls --scope local --endpoints n1:7400`,
		RunE: cli.Run(env, &f, runList),
	}
	env.Cluster.AddReadOnlyFlag(cmd)
	cli.AddOwnerFlag(cmd, &f.owner)
	cli.AddScopeFlag(cmd, &f.scope)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, cli.SelectLabelHelp)
	flags.Var(arg.NotNegative(&f.minAge, 0), "min-age", "smallest time since the open; 0 for no bound")
	flags.Var(arg.NotNegative(&f.maxAge, 0), "max-age", "largest time since the open; 0 for no bound")
	flags.Var(arg.NotNegative(&f.minRemaining, 0), "min-remaining", "smallest remaining time; 0 for no bound")
	flags.Var(arg.NotNegative(&f.maxRemaining, 0), "max-remaining", "largest remaining time; 0 for no bound")
	flags.StringVar(&f.sortBy, "sort-by", byID, "order of the list: id or remaining")
	flags.Var(arg.Whole(&f.limit, 0, 0, 1<<30), "limit", fmt.Sprintf(
		"maximum number of sessions; 0 for all, or with --sort-by remaining for %d, which is the maximum there",
		session.MaxPage))
	cli.CompleteWords(cmd, "sort-by", byID, byRemaining)
	return cmd
}

// options returns the options from the flags.
func (f *listFlags) options() (client.ListOptions, error) {
	o := client.ListOptions{
		Owner: session.Node(f.owner), PageSize: session.MaxPage, MinAge: f.minAge, MaxAge: f.maxAge,
		MinRemaining: f.minRemaining, MaxRemaining: f.maxRemaining,
	}
	var err error
	if o.Labels, err = cli.SelectLabels(f.labels); err != nil {
		return o, err
	}
	if o.Scope, err = cli.ParseScope(f.scope); err != nil {
		return o, err
	}
	switch o.Soonest = f.sortBy == byRemaining; {
	case !o.Soonest && f.sortBy != byID:
		return o, cli.Usage("--sort-by %q: want id or remaining", f.sortBy)
	case o.Soonest && f.limit > session.MaxPage:
		return o, cli.Usage("--limit %d: want at most %d with --sort-by remaining", f.limit, session.MaxPage)
	}
	if f.limit > 0 {
		o.PageSize = min(f.limit, session.MaxPage)
	}
	return o, nil
}

// listedView is a session of a list in JSON.
type listedView struct {
	view.Session

	// ReadOnly is absent unless a read-only node answered.
	ReadOnly *readOnlyView `json:"read_only,omitempty"`
}

// runList prints all pages. Each page is a call with its own time limit.
func runList(ctx context.Context, env *cli.Env, f *listFlags, _ []string) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	views := []listedView{}
	var rows [][]string
	var last session.NodeState
	err = env.Cluster.Connect(func(cl *client.Client) error {
		for {
			page, failed := cli.Timed(ctx, env.Cluster,
				func(ctx context.Context) (client.Page, error) { return cl.List(ctx, o) })
			if failed != nil {
				return failed
			}
			for _, l := range page.Sessions {
				views = append(views, listedView{view.NewSession(l.Session, l.Remaining), viewReadOnly(page.State)})
				rows = append(rows, listRow(&l.Session, l.Remaining))
			}
			if page.State != last {
				reportReadOnly(env, page.State)
				last = page.State
			}
			o.PageToken = page.Next
			if page.Next == "" || o.Soonest || f.limit > 0 && len(rows) >= f.limit {
				return nil
			}
		}
	})
	if err != nil {
		return err
	}
	if f.limit > 0 {
		views, rows = views[:min(len(views), f.limit)], rows[:min(len(rows), f.limit)]
	}
	return env.Out.Print(views, func() string {
		return cli.Table([]string{"ID", "OWNER", "SCOPE", "TIMEOUT", "REMAINING", "OPENED", "LABELS"}, rows)
	})
}

func listRow(s *session.Session, remaining time.Duration) []string {
	return []string{
		s.ID.String(), cli.Number(s.Owner), cli.Scope(s.Local), words.Span(s.Timeout), words.Span(remaining),
		words.Moment(s.OpenedAt), words.Labels(s.Labels),
	}
}
