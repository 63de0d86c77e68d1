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
order in which they came. With --shared, any number of programs with --shared hold the lock together:
all users of such a lock give --shared, or --exclusive for a turn alone.

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
			exclusive := cmd.Flags().Changed("exclusive")
			u.take = func(ctx context.Context, s *client.Session) (held, error) {
				return c.takeLock(ctx, &flags, lockOf(s, path, shared, exclusive, recipes.WithLinger(flags.linger)))
			}
			return u.run(cmd.Context())
		},
	}
	flags.add(cmd, "the lock")
	cmd.Flags().BoolVar(&shared, "shared", false, "hold the lock together with others that give --shared")
	cmd.Flags().Bool("exclusive", false, "hold alone a lock that others hold with --shared")
	cmd.MarkFlagsMutuallyExclusive("shared", "exclusive")
	cmd.AddCommand(c.lockList(), c.lockShow(), c.lockBreak())
	return c.ofTree(cmd)
}

// acquisition are the two ways to a lock.
type acquisition struct {
	wait, try func(context.Context) (*recipes.Hold, error)
}

// lockOf returns the lock at a path: a plain one, or a side of one for readers and writers.
func lockOf(s *client.Session, path string, reads, writes bool, o recipes.Option) acquisition {
	switch {
	case reads:
		l := recipes.NewReadWriteLock(s, path, o)
		return acquisition{l.RLock, l.TryRLock}
	case writes:
		l := recipes.NewReadWriteLock(s, path, o)
		return acquisition{l.Lock, l.TryLock}
	default:
		l := recipes.NewMutex(s, path, o)
		return acquisition{l.Lock, l.TryLock}
	}
}

// takeLock takes a lock in the way that the flags say.
func (c holds) takeLock(ctx context.Context, f *underFlags, l acquisition) (held, error) {
	var h *recipes.Hold
	var err error
	if f.tries() {
		h, err = limited(ctx, c.target, l.try)
	} else {
		h, err = l.wait(ctx)
	}
	if err != nil {
		return held{}, err
	}
	return held{Hold: h, path: h.Path(), token: h.Token(), lost: h.Err, giveUp: h.Unlock}, nil
}
