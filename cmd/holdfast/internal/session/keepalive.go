package session

import (
	"context"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/keepalive"
)

// keepAliveFlags are the flags of "session keep-alive".
type keepAliveFlags struct {
	session cli.SessionFlags
	token   cli.TokenFlag
	noClose bool
}

func newKeepAlive(env *cli.Env) *cobra.Command {
	var f keepAliveFlags
	cmd := &cobra.Command{
		Use: "keep-alive", Short: "Keep a session alive until interrupted", Args: cli.NoArgs,
		Long: `Keep a session alive until interrupted: the session of a token, or a new session.

The command prints the session's id and token, then a line for each event: the event, the state
(after a change "old -> new"), and the time until which the cluster promises not to expire the
session. With -o json each line is an object. The states are connecting, connected, jeopardy (a node
serves the session, but touches may not count), connected read-only, expired, closed and auth
failed.

With a token, the command takes the session over from its current holder; an old token works too.
When another process takes the session over, the command ends and does not take it back.

With --read-only the client may stay connected to a read-only node, which knows no leader, while it
looks for a read-write node. Only a read-write node can open or resume the session: until the client
finds one, a line names the read-only node. Once the client has reached a read-only node it waits
without a time limit, even if it loses that node.

Ctrl-C closes the session, or with --no-close leaves it to expire; the exit code then is 0. When the
session ends in another way the exit code is 1.`,
		Example: `  holdfast session keep-alive --label service=web
  holdfast session keep-alive --token-file token --no-close -o json
  holdfast session keep-alive --read-only`,
		RunE: cli.Run(env, &f, runKeepAlive),
	}
	f.session.Register(cmd)
	f.token.Register(cmd)
	env.Cluster.AddReadOnlyFlag(cmd)
	cmd.Flags().BoolVar(&f.noClose, "no-close", false, "on Ctrl-C leave the session to expire instead of closing it")
	for _, ofNew := range f.session.Names() {
		cmd.MarkFlagsMutuallyExclusive("token-file", ofNew)
	}
	return cmd
}

func runKeepAlive(ctx context.Context, env *cli.Env, f *keepAliveFlags, _ []string) error {
	o := keepalive.Options{Open: f.session.Open, NoClose: f.noClose}
	if f.token.IsSet() {
		token, err := f.token.Token(ctx, env.Stdin) // without a time limit: --call-timeout is for calls
		if err != nil {
			return err
		}
		o.Open = func(ctx context.Context, cl *client.Client) (*client.Session, error) { return cl.Resume(ctx, token) }
	}
	return keepalive.Run(ctx, env, o)
}
