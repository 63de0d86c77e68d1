package session

import (
	"context"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
)

func newUpgrade(env *cli.Env) *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Make a local session global", Args: cli.NoArgs,
		Long: `Make a local session global, and print its new token. The session keeps its id and timeout. From
then on it outlives its node, and every node can resume it.

The command finds the session's node. It is safe to repeat: a global session stays as it is. If the
outcome is unknown, run the command again.`,
		RunE: cli.Run(env, &f, runUpgrade),
	}
	f.token.Register(cmd)
	return cmd
}

func runUpgrade(ctx context.Context, env *cli.Env, f *tokenFlags, _ []string) error {
	token, err := f.token.Token(ctx, env.Stdin)
	if err != nil {
		return err
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		u, err := cl.UpgradeToken(ctx, token)
		if err != nil {
			return err
		}
		return printToken(env, u.Session, u.Token, u.SafeUntil)
	})
}
