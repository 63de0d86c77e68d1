package tree

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/tree"
)

// progressEvery is the least time between two lines about progress.
const progressEvery = 2 * time.Second

// removeFlags are the flags of "rm".
type removeFlags struct {
	version   versionFlag
	recursive bool
}

func newRemove(env *cli.Env) *cobra.Command {
	var f removeFlags
	cmd := &cobra.Command{
		Use: "rm PATH", Short: "Remove an entry of the tree", Args: cli.OnePath,
		Long: fmt.Sprintf(`Remove an entry of the tree, or with -r an entry and all entries below it. Up to %d entries are
removed atomically. More entries are removed in steps, which other clients can see; the standard
error shows the progress. If the command fails, run it again.

`, tree.MaxDeleteTree) + cli.WriteHelp,
		Example: `  holdfast rm /app/config --version 3
  holdfast rm -r /app/jobs`,
		RunE: cli.Run(env, &f, runRemove),
	}
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "remove all entries below PATH too")
	f.version.add(cmd, "the entry")
	cmd.MarkFlagsMutuallyExclusive("recursive", "version")
	return cmd
}

func runRemove(ctx context.Context, env *cli.Env, f *removeFlags, args []string) error {
	return env.Write(ctx, func(ctx context.Context, t *client.Tree) error {
		r := remover{env: env, tree: t, reportedAt: time.Now()}
		var err error
		if f.recursive {
			err = r.all(ctx, args[0])
		} else {
			err = r.one(ctx, args[0], f.version)
		}
		if err != nil {
			return r.explain(err)
		}
		v := changeView{Path: args[0], Stamp: r.stamp.String(), Removed: r.removed}
		return env.Out.Print(v, func() string { return fmt.Sprintf("removed %s", entriesText(r.removed)) })
	})
}

func entriesText(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// remover is one run of "rm".
type remover struct {
	env        *cli.Env
	tree       *client.Tree
	removed    int
	stamp      tree.Stamp // of the newest removal
	reportedAt time.Time  // when progress was last reported
}

// one removes an entry without children.
func (r *remover) one(ctx context.Context, path string, version versionFlag) error {
	stamp, err := cli.Timed(ctx, r.env.Cluster, func(ctx context.Context) (tree.Stamp, error) {
		return r.tree.Delete(ctx, path, version.option())
	})
	if err == nil {
		r.count(1, stamp)
	}
	return err
}

// all removes an entry and all entries below it, in one request or in steps.
func (r *remover) all(ctx context.Context, path string) error {
	for {
		done, err := cli.Timed(ctx, r.env.Cluster, func(ctx context.Context) (client.Removed, error) {
			return r.tree.DeleteTree(ctx, path)
		})
		if err == nil {
			r.count(done.Entries, done.Stamp)
			return nil
		}
		if !cli.IsRefused(err, tree.OverLimit) {
			return err
		}
		if err := r.below(ctx, path); err != nil {
			return err
		}
	}
}

// below removes a page of the children of an entry with too many entries below it.
func (r *remover) below(ctx context.Context, path string) error {
	page, err := cli.Timed(ctx, r.env.Cluster, func(ctx context.Context) (client.Children, error) {
		return r.tree.ListPage(ctx, path, client.Listing{PageSize: tree.MaxPage, WithStat: true})
	})
	if err != nil {
		return err
	}
	var leaves []tree.Op
	var large []string
	for _, child := range page.Children {
		full := tree.Join(path, child.Name)
		if child.Hidden || child.Stat.Children > 0 {
			large = append(large, full)
		} else {
			leaves = append(leaves, tree.Delete{Path: full, Version: tree.Any})
		}
	}
	left, err := r.leaves(ctx, leaves)
	if err != nil {
		return err
	}
	large = append(large, left...)
	for _, child := range large {
		if err := r.all(ctx, child); err != nil && !cli.IsRefused(err, tree.NoNode) {
			return err
		}
	}
	return nil
}

// leaves removes entries without children, as many in a transaction as fit. It returns the entries that another client
// changed meanwhile, which may be left.
func (r *remover) leaves(ctx context.Context, all []tree.Op) (left []string, err error) {
	for len(all) > 0 {
		n, bytes := 0, 0
		for n < len(all) && bytes < tree.MaxRequest/2 { // and one path more: below the limit of a transaction
			bytes += len(all[n].Target())
			n++
		}
		some := tree.Transaction{Then: all[:n]}
		all = all[n:]
		done, err := cli.Timed(ctx, r.env.Cluster, func(ctx context.Context) (client.Transacted, error) {
			return r.tree.Transact(ctx, some)
		})
		switch {
		case err == nil:
			r.count(n, done.Stamp)
			continue
		case !cli.IsRefused(err, tree.NoNode) && !cli.IsRefused(err, tree.NotEmpty):
			return nil, err
		}
		for _, op := range some.Then {
			left = append(left, op.Target())
		}
	}
	return left, nil
}

// count counts removed entries, and reports the progress from time to time.
func (r *remover) count(n int, stamp tree.Stamp) {
	r.removed += n
	r.stamp = stamp
	if now := time.Now(); now.Sub(r.reportedAt) >= progressEvery {
		r.reportedAt = now
		r.env.Out.Messagef("holdfast: removed %s so far\n", entriesText(r.removed))
	}
}

// explain adds the number of removed entries to an error.
func (r *remover) explain(err error) error {
	if r.removed == 0 {
		return err
	}
	return fmt.Errorf("%w: after %s were removed", err, entriesText(r.removed))
}
