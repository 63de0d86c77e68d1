// Package lock has the commands that run a program while something is held in the cluster: "holdfast lock", "elect" and
// "register".
package lock

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/holdfast/internal/cli"
)

// New returns the commands.
func New(env *cli.Env) []*cobra.Command {
	return cli.WithDigest(env, newLock(env), newElect(env), newRegister(env))
}

// locksPath is the entry above the locks that are given by name.
const locksPath = "/locks"

// nameHelp is part of the help of every command that takes the name of a lock.
const nameHelp = `NAME means the entry ` + locksPath + `/NAME of the tree, unless it begins with a slash.`

// lockFlags are the flags of "lock".
type lockFlags struct {
	program programFlags
	shared  bool
}

func newLock(env *cli.Env) *cobra.Command {
	var f lockFlags
	cmd := &cobra.Command{
		Use: "lock NAME -- COMMAND [ARGUMENT...]", Short: "Run a program while holding a lock", Args: programArgs,
		Long: `Acquire a lock, run a program, and release the lock. Waiters acquire the lock in the order in which
they came. With --shared the lock is a read lock: any number of programs with --shared hold it
together.

` + nameHelp + `
A lock with the name ls, show or break must be given by its path.

` + programHelp,
		Example: `  holdfast lock backup -- pg_dump -f /backup/db
  holdfast lock backup --wait 0 --timeout 30s --grace-period 4s -- ./backup.sh
  holdfast lock ls`,
		RunE: cli.Run(env, &f, runLock),
	}
	f.program.register(cmd, "the lock")
	cmd.Flags().BoolVar(&f.shared, "shared", false, "acquire a read lock, which programs with --shared hold together")
	cmd.AddCommand(newList(env), newShow(env), newBreak(env))
	return cmd
}

func runLock(ctx context.Context, env *cli.Env, f *lockFlags, args []string) error {
	path, err := pathOf(locksPath, args[0])
	if err != nil {
		return err
	}
	r := runner{env: env, flags: &f.program, work: "lock", command: args[1:]}
	r.acquire = func(ctx context.Context, s *client.Session) (hold, error) {
		l := recipes.NewLock(s, path, recipes.WithLockDelay(f.program.lockDelay))
		wait, try := l.Lock, l.TryLock
		if f.shared {
			wait, try = l.RLock, l.TryRLock
		}
		var h *recipes.Hold
		var err error
		if f.program.tries() {
			h, err = cli.Timed(ctx, env.Cluster, try)
		} else {
			h, err = wait(ctx)
		}
		if err != nil {
			return hold{}, withBusyHint(err, "\"holdfast lock show NAME\" shows who holds a lock.")
		}
		return hold{Hold: h, path: h.Path(), token: h.Token(), lost: h.Err, release: h.Unlock}, nil
	}
	return r.run(ctx)
}

// withBusyHint adds a hint to the error of a lock or an election that another caller holds.
func withBusyHint(err error, hint string) error {
	if errors.Is(err, recipes.ErrBusy) {
		return cli.WithHint(err, hint)
	}
	return err
}
