package lock

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

// maxContenders bounds the contenders of one lock that the commands read.
const maxContenders = 10_000

// showFlags are the flags of "lock show" and "elect show".
type showFlags struct{ reads cli.ReadFlags }

func newShow(env *cli.Env) *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show the holders and waiters of a lock", Args: arg.One("NAME"),
		Long: `Show the holders and waiters of a lock, in their order. DESCRIPTION is the data that the client
wrote: "holdfast lock" writes host and process. SINCE is when the client came, by the clock of the
leader at that time: a holder has held the lock since then, or since its predecessor released it.
The state "lock-delay" marks a session that has expired: the lock is free after its lock-delay.
The exit code is 0 also for a lock without holders.

` + nameHelp,
		RunE: cli.Run(env, &f, runShow),
	}
	f.reads.Register(cmd, env.Cluster)
	return cmd
}

func runShow(ctx context.Context, env *cli.Env, f *showFlags, args []string) error {
	return printContenders(ctx, env, f, locksPath, args[0], "DESCRIPTION")
}

// printContenders prints the contenders of the entry to which a name below base refers. data is the header of the
// column with their data.
func printContenders(ctx context.Context, env *cli.Env, f *showFlags, base, name, data string) error {
	path, err := pathOf(base, name)
	if err != nil {
		return err
	}
	return env.Cluster.Connect(func(cl *client.Client) error {
		all, _, err := listContenders(ctx, env, cl.Tree(f.reads.Options()...), path)
		if err != nil && !cli.IsRefused(err, tree.NoNode) {
			return err
		}
		return env.Out.Print(append([]contenderView{}, all...), func() string {
			rows := make([][]string, 0, len(all))
			for _, v := range all {
				rows = append(rows, []string{
					v.State, v.As, v.Holder, sessionText(v.Owner), words.OrDash(v.Token), words.Moment(v.Since),
				})
			}
			return cli.Table([]string{"STATE", "AS", data, "SESSION", "TOKEN", "SINCE"}, rows)
		})
	})
}

// contenderView is a holder of a lock, or a waiter.
type contenderView struct {
	// State is "holds" or "waits", or "lock-delay" for the entry of a session that has expired. An entry that the caller
	// may not read has no token and no time, and its state may be "holds or lock-delay".
	State string `json:"state"`
	// As is "lock", "read" or "candidate".
	As     string    `json:"as"`
	Holder string    `json:"holder"`
	Owner  *view.ID  `json:"session,omitempty"`
	Token  string    `json:"token"`
	Since  time.Time `json:"since,omitzero"`
	Path   string    `json:"path"`
	stamp  tree.Stamp
}

// viewContender returns a contender in JSON.
func viewContender(one *recipes.Contender) contenderView {
	v := contenderView{State: one.State, As: one.As, Path: one.Path}
	if one.Hidden {
		v.Holder = "(hidden)"
		if one.State == recipes.InLockDelay {
			v.State = "holds or lock-delay" // only the data of the entry would decide
		}
		return v
	}
	v.Holder, v.Token, v.Since = string(one.Data), one.Stat.Created.String(), one.Stat.CreatedAt
	if v.stamp = one.Stat.Created; one.Stat.Owner != 0 {
		v.Owner = new(view.ID(one.Stat.Owner))
	}
	return v
}

// listContenders returns the holders and waiters of the lock at a path, in their order, and the names of other entries
// below the path. It prints a message when it does not show all contenders.
func listContenders(ctx context.Context, env *cli.Env, t *client.Tree, path string) ([]contenderView, []string, error) {
	children, err := env.Children(ctx, t, path, client.Listing{WithData: true}, maxContenders)
	if err != nil {
		return nil, nil, err
	}
	if len(children) > maxContenders {
		env.Out.Messagef("holdfast: %s has more than %d entries: some are not shown\n", cli.Escape(path), maxContenders)
	}
	line, others := recipes.Contenders(path, children)
	all := make([]contenderView, 0, len(line))
	for i := range line {
		all = append(all, viewContender(&line[i]))
	}
	return all, others, nil
}

func sessionText(owner *view.ID) string {
	if owner == nil {
		return "-"
	}
	return session.ID(*owner).String()
}
