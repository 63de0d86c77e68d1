package lock

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session/words"
	"holdfast/tree"
)

// maxLocks bounds --limit.
const maxLocks = 100_000

// listFlags are the flags of "lock ls".
type listFlags struct {
	reads cli.ReadFlags
	limit int
}

func newList(env *cli.Env) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use: "ls [PREFIX]", Short: "List the locks that are held",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage("%q accepts at most one PREFIX, not %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		Long: `List the locks that are held, or only those whose names begin with PREFIX. A PREFIX that begins with
a slash is a path. The locks are read one after the other, so the list is no snapshot of a single
moment.

` + nameHelp,
		Example: `  holdfast lock ls
  holdfast lock ls backup/`,
		RunE: cli.Run(env, &f, runList),
	}
	cmd.Flags().Var(arg.Whole(&f.limit, 1000, 1, maxLocks), "limit", "maximum number of entries to read")
	f.reads.Register(cmd, env.Cluster)
	return cmd
}

func runList(ctx context.Context, env *cli.Env, f *listFlags, args []string) error {
	prefix := locksPath + tree.Root
	if len(args) == 1 && strings.HasPrefix(args[0], tree.Root) {
		prefix = args[0]
	} else if len(args) == 1 {
		prefix += args[0]
	}
	root := cmp.Or(prefix[:strings.LastIndex(prefix, tree.Root)], tree.Root)
	if err := cli.CheckPath(root); err != nil {
		return err
	}
	return env.Cluster.Connect(func(cl *client.Client) error {
		l := lister{env: env, tree: cl.Tree(f.reads.Options()...), prefix: prefix, limit: f.limit}
		if err := l.list(ctx, root); err != nil && !cli.IsRefused(err, tree.NoNode) {
			return err
		}
		return l.print()
	})
}

// lister is one run of "lock ls".
type lister struct {
	env    *cli.Env
	tree   *client.Tree
	prefix string
	limit  int
	locks  []lockView
}

// lockView is a lock in JSON.
type lockView struct {
	Path    string          `json:"path"`
	Holders []contenderView `json:"holders"`
	Waiting int             `json:"waiting"`
}

// list finds locks at an entry and below it, parents first.
func (l *lister) list(ctx context.Context, root string) error {
	left := l.limit
	for next := []string{root}; len(next) > 0; next = next[1:] {
		if left == 0 {
			l.env.Out.Messagef("holdfast: the list is incomplete: only %d entries were read; use --limit\n", l.limit)
			return nil
		}
		left--
		path := next[0]
		all, others, err := listContenders(ctx, l.env, l.tree, path)
		switch {
		case cli.IsRefused(err, tree.NoNode) && path != root:
			continue // removed since
		case err != nil:
			return err
		case len(all) > 0 && strings.HasPrefix(path, l.prefix):
			l.locks = append(l.locks, lockOfContenders(path, all))
		}
		for _, name := range others {
			if entry := tree.Join(path, name); strings.HasPrefix(entry, l.prefix) ||
				strings.HasPrefix(l.prefix, entry+tree.Root) {
				next = append(next, entry)
			}
		}
	}
	return nil
}

func lockOfContenders(path string, all []contenderView) lockView {
	v := lockView{Path: path}
	for _, one := range all {
		if one.State == "waits" {
			v.Waiting++
		} else {
			v.Holders = append(v.Holders, one)
		}
	}
	return v
}

func (l *lister) print() error {
	return l.env.Out.Print(append([]lockView{}, l.locks...), func() string {
		var rows [][]string
		for _, v := range l.locks {
			first := v.Holders[0]
			holder := first.Holder
			if more := len(v.Holders) - 1; more > 0 {
				holder += fmt.Sprintf(" and %d more", more)
			}
			rows = append(rows, []string{
				v.Path, holder, sessionText(first.Owner), words.OrDash(first.Token), words.Moment(first.Since),
				fmt.Sprint(v.Waiting),
			})
		}
		return cli.Table([]string{"LOCK", "HOLDER", "SESSION", "TOKEN", "SINCE", "WAITING"}, rows)
	})
}
