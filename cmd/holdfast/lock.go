package main

import (
	"context"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
)

// locksPath is where locks are that are given by name.
const locksPath = "/locks"

// nameHelp is part of the help of every command that takes the name of a lock.
const nameHelp = `NAME stands for the entry ` + locksPath + `/NAME of the tree, unless it begins with a slash.`

func (c holds) lock() *cobra.Command {
	var flags underFlags
	var shared bool
	cmd := &cobra.Command{
		Use: "lock NAME -- COMMAND [ARGUMENT...]", Short: "Run a program while a lock is held", Args: programArgs,
		Long: `Wait for a lock, run a program while it is held, and give it up. Those who wait get the lock in the
order in which they came. With --shared, any number of programs with --shared hold the lock together.

` + nameHelp + ` A lock with the name ls, show or break is given by its path.

` + underHelp,
		Example: `  holdfast lock backup -- pg_dump -f /backup/db
  holdfast lock backup --wait 0 --timeout 30s --grace 4s -- ./backup.sh
  holdfast lock ls`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := below(locksPath, args[0])
			if err != nil {
				return err
			}
			u := under{holds: c, flags: &flags, label: "lock", command: args[1:]}
			u.take = func(ctx context.Context, s *client.Session) (held, error) {
				l := recipes.NewLock(s, path, recipes.WithLinger(flags.linger))
				if shared {
					return c.takeLock(ctx, &flags, l.RLock, l.TryRLock)
				}
				return c.takeLock(ctx, &flags, l.Lock, l.TryLock)
			}
			return u.run(cmd.Context())
		},
	}
	flags.add(cmd, "the lock")
	cmd.Flags().BoolVar(&shared, "shared", false, "hold the lock together with others that give --shared")
	cmd.AddCommand(c.lockList(), c.lockShow(), c.lockBreak())
	return c.ofTree(cmd)
}

// acquire is a call of a lock.
type acquire func(context.Context) (*recipes.Hold, error)

// takeLock takes a lock in the way that the flags say.
func (c holds) takeLock(ctx context.Context, f *underFlags, wait, try acquire) (held, error) {
	var h *recipes.Hold
	var err error
	if f.tries() {
		h, err = limited(ctx, c.target, try)
	} else {
		h, err = wait(ctx)
	}
	if err != nil {
		return held{}, err
	}
	return held{Hold: h, path: h.Path(), token: h.Token(), lost: h.Err, giveUp: h.Unlock}, nil
}
