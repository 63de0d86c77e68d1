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
)

// extendFlags are the flags of "session extend".
type extendFlags struct{ span time.Duration }

func newExtend(env *cli.Env) *cobra.Command {
	var f extendFlags
	cmd := &cobra.Command{
		Use: "extend ID", Short: "Keep a session for a time without touches", Args: arg.One("ID"),
		Long: `Keep a session for a time without touches, for example while its client is in a debugger. After
--for it expires as soon as the last touch is older than its timeout. A second extension replaces
the first one, and --for 0s cancels it. The time of a freeze does not count.

The cluster promises the client no more than before. The session can be closed, moved and killed as
usual. A local session cannot be extended.`,
		Example: `  holdfast session extend 0x01004f2a3c5d0001 --for 10m
  holdfast session explain 0x01004f2a3c5d0001`,
		RunE: cli.Run(env, &f, runExtend),
	}
	cmd.Flags().Var(arg.NotNegative(&f.span, 0), "for",
		fmt.Sprintf("how long from now on, at most %s; 0s cancels an extension", session.MaxFreeze))
	cli.MarkRequired(cmd, "for")
	return cmd
}

// extendView is an extension of a session, in JSON.
type extendView struct {
	ID    view.ID `json:"id"`
	ForMS int64   `json:"for_ms"`
}

func runExtend(ctx context.Context, env *cli.Env, f *extendFlags, args []string) error {
	id, err := cli.ParseID(args[0])
	if err != nil {
		return err
	}
	if f.span != 0 {
		if err := cli.CheckFreeze(f.span); err != nil {
			return err
		}
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.Extend(ctx, id, f.span); err != nil {
			return err
		}
		return env.Out.Print(extendView{view.ID(id), f.span.Milliseconds()}, func() string {
			if f.span == 0 {
				return fmt.Sprintf("session %v is no longer extended", id)
			}
			return fmt.Sprintf("session %v does not expire within %s", id, f.span)
		})
	})
}
