package session

import (
	"context"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
)

func newClose(env *cli.Env) *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use: "close", Short: "Close a session", Args: cli.NoArgs,
		Long: `Close a session: it ends at once for everyone. The command fails if the session was resumed after
the token was issued.`,
		RunE: cli.Run(env, &f, runClose),
	}
	f.token.Register(cmd)
	return cmd
}

// closedView is a closed session in JSON.
type closedView struct {
	ID     view.ID `json:"id"`
	Closed bool    `json:"closed"`
}

func runClose(ctx context.Context, env *cli.Env, f *tokenFlags, _ []string) error {
	token, err := f.token.Token(ctx, env.Stdin)
	if err != nil {
		return err
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.CloseToken(ctx, token); err != nil {
			return err
		}
		return env.Out.Print(closedView{view.ID(token.ID), true}, func() string { return token.ID.String() + " closed" })
	})
}
