package session

import (
	"context"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
)

func newOpen(env *cli.Env) *cobra.Command {
	var f cli.SessionFlags
	cmd := &cobra.Command{
		Use: "open", Short: "Open a session and print its id and token", Args: cli.NoArgs,
		Long: `Open a session and print its id and token. The command does not keep the session alive: it expires
after its timeout unless "session touch", "session keep-alive" or another client continues it.

` + cli.TokenHelp,
		Example: `  umask 077   # the token is a secret: only its owner may read the file
  holdfast session open --timeout 30s --label service=web -o json | jq -r .token > token
  holdfast session keep-alive --token-file token`,
		RunE: cli.Run(env, &f, runOpen),
	}
	f.Register(cmd)
	return cmd
}

func runOpen(ctx context.Context, env *cli.Env, f *cli.SessionFlags, _ []string) error {
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		s, err := f.Open(ctx, cl)
		if err != nil {
			return err
		}
		return printOpened(env, s)
	})
}
