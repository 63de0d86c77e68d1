package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session/words"
	"holdfast/tree"
)

// breakFlags are the flags of "lock break".
type breakFlags struct{ yes bool }

func newBreak(env *cli.Env) *cobra.Command {
	var f breakFlags
	cmd := &cobra.Command{
		Use: "break NAME", Short: "Break a lock", Args: arg.One("NAME"),
		Long: `Break a lock: remove the entry of its holder, so that the next waiter acquires the lock at once. The
command asks first, unless --yes is given.

The former holder is notified, and "holdfast lock" kills its program. A holder that is disconnected
or stopped continues to work until it learns of the break. Only a fencing token prevents damage
then: a resource that has seen the next holder's token refuses the former holder.

` + nameHelp + `
` + cli.WriteHelp,
		Example: `  holdfast lock show backup
  holdfast lock break backup`,
		RunE: cli.Run(env, &f, runBreak),
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	return cmd
}

func runBreak(ctx context.Context, env *cli.Env, f *breakFlags, args []string) error {
	path, err := pathOf(locksPath, args[0])
	if err != nil {
		return err
	}
	return env.Write(ctx, func(ctx context.Context, t *client.Tree) error {
		return breakLock(ctx, env, t, path, f.yes)
	})
}

// breakLock removes the entries of the holders of a lock.
//
//nolint:revive // sure is a flag of the command
func breakLock(ctx context.Context, env *cli.Env, t *client.Tree, path string, sure bool) error {
	all, _, err := listContenders(ctx, env, t, path)
	if err != nil && !cli.IsRefused(err, tree.NoNode) {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("break %s: the lock is not held", path)
	}
	v := lockOfContenders(path, all)
	if !sure {
		if err := confirm(ctx, env, &v); err != nil {
			return err
		}
	}
	for _, one := range v.Holders {
		if err := removeContender(ctx, env, t, &one); err != nil {
			return err
		}
	}
	return env.Out.Print(v, func() string {
		var lines []string
		for _, one := range v.Holders {
			lines = append(lines, cli.Escape("broken: "+one.Holder+", token "+one.Token))
		}
		return strings.Join(lines, "\n")
	})
}

// confirm asks the user whether to break a lock.
func confirm(ctx context.Context, env *cli.Env, v *lockView) error {
	for _, one := range v.Holders {
		env.Out.Messagef("%s is held by %s, session %s, token %s, since %s.\n", cli.Escape(v.Path), cli.Escape(one.Holder),
			sessionText(one.Owner), one.Token, words.Moment(one.Since))
	}
	env.Out.Messagef("A former holder that is disconnected or stopped may continue to work: " +
		"only resources that check fencing tokens refuse it.\n" +
		"Type \"yes\" to break the lock: ")
	switch answer, err := arg.Answer(ctx, env.Stdin); {
	case errors.Is(err, io.EOF):
		return cli.Usage("the standard input ended without an answer: pass --yes")
	case err != nil:
		return fmt.Errorf("break %s: read the answer: %w", v.Path, err)
	case answer != "yes":
		return fmt.Errorf("break %s: not confirmed", v.Path)
	}
	return nil
}

// removeContender removes the entry of a contender, unless another entry has its path by now.
func removeContender(ctx context.Context, env *cli.Env, t *client.Tree, one *contenderView) error {
	if one.stamp == 0 {
		return fmt.Errorf("break %s: no permission to read the entry, so its fencing token is unknown",
			one.Path)
	}
	done, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.Transacted, error) {
		return t.Transact(ctx, tree.Transaction{
			If: []tree.Condition{
				{Path: one.Path, Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(one.stamp)},
			},
			Then: []tree.Op{tree.Delete{Path: one.Path, Version: tree.Any}},
		})
	})
	if err == nil && done.Outcome.Else {
		err = fmt.Errorf("break %s: the holder has released the lock", one.Path)
	}
	return err
}
