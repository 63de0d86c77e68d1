package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/tree"
)

// progressEvery is the least time between two lines about long work.
const progressEvery = 2 * time.Second

func (c *treeCommands) treeRemove() *cobra.Command {
	var version versionFlag
	var recursive bool
	cmd := &cobra.Command{
		Use: "rm PATH", Short: "Remove an entry of the tree", Args: onePath,
		Long: fmt.Sprintf(`Remove an entry of the tree, or with -r an entry and all below it. Up to %d entries go at once:
all of them or none. More of them go in steps, and others see the steps; the standard error says
how far the command is. If it fails, run it again.

`, tree.MaxDeleteTree) + writeHelp,
		Example: `  holdfast rm /app/config --version 3
  holdfast rm -r /app/jobs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.writing(cmd.Context(), func(ctx context.Context, t *client.Tree) error {
				r := remover{cli: c, tree: t, told: time.Now()}
				var err error
				if recursive {
					err = r.all(ctx, args[0])
				} else {
					err = r.one(ctx, args[0], version)
				}
				if err != nil {
					return r.explain(err)
				}
				v := changeView{Path: args[0], Stamp: r.stamp.String(), Removed: r.removed}
				return c.out.print(v, func() string { return fmt.Sprintf("removed %s", entriesText(r.removed)) })
			})
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove all below the entry too")
	version.add(cmd, "the entry")
	cmd.MarkFlagsMutuallyExclusive("recursive", "version")
	return c.ofTree(cmd)
}

func entriesText(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// remover is one run of "rm".
type remover struct {
	cli     *treeCommands
	tree    *client.Tree
	removed int
	stamp   tree.Stamp // of the newest removal
	told    time.Time  // when the user was told how far it is
}

// one removes an entry without children.
func (r *remover) one(ctx context.Context, path string, version versionFlag) error {
	stamp, err := limited(ctx, r.cli.target, func(ctx context.Context) (tree.Stamp, error) {
		return r.tree.Delete(ctx, path, version.option())
	})
	if err == nil {
		r.count(1, stamp)
	}
	return err
}

// all removes an entry and all below it: at once, or else piece by piece.
func (r *remover) all(ctx context.Context, path string) error {
	for {
		done, err := limited(ctx, r.cli.target, func(ctx context.Context) (client.Removed, error) {
			return r.tree.DeleteTree(ctx, path)
		})
		if err == nil {
			r.count(done.Entries, done.Stamp)
			return nil
		}
		if !isRefused(err, tree.OverLimit) {
			return err
		}
		if err := r.below(ctx, path); err != nil {
			return err
		}
	}
}

// below removes a page of the children of an entry that has too much below it.
func (r *remover) below(ctx context.Context, path string) error {
	page, err := limited(ctx, r.cli.target, func(ctx context.Context) (client.Children, error) {
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
		if err := r.all(ctx, child); err != nil && !isRefused(err, tree.NoNode) {
			return err
		}
	}
	return nil
}

// leaves removes entries without children, as many at once as their paths let a transaction hold. If another client
// changes them too, it returns those that are left.
func (r *remover) leaves(ctx context.Context, all []tree.Op) (left []string, err error) {
	for len(all) > 0 {
		n, bytes := 0, 0
		for n < len(all) && bytes < tree.MaxRequest/2 { // and one path more: below the limit of a transaction
			bytes += len(all[n].Target())
			n++
		}
		some := tree.Transaction{Then: all[:n]}
		all = all[n:]
		done, err := limited(ctx, r.cli.target, func(ctx context.Context) (client.Transacted, error) {
			return r.tree.Transact(ctx, some)
		})
		switch {
		case err == nil:
			r.count(n, done.Stamp)
			continue
		case !isRefused(err, tree.NoNode) && !isRefused(err, tree.NotEmpty):
			return nil, err
		}
		for _, op := range some.Then {
			left = append(left, op.Target())
		}
	}
	return left, nil
}

// count notes what was removed, and tells the user from time to time.
func (r *remover) count(n int, stamp tree.Stamp) {
	r.removed += n
	r.stamp = stamp
	if now := time.Now(); now.Sub(r.told) >= progressEvery {
		r.told = now
		r.cli.out.complain("holdfast: removed %s so far\n", entriesText(r.removed))
	}
}

// explain returns the error of the command, with what is gone already.
func (r *remover) explain(err error) error {
	if r.removed == 0 {
		return err
	}
	return fmt.Errorf("%w: after %s were removed", err, entriesText(r.removed))
}
