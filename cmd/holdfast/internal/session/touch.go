package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/session"
	"holdfast/session/words"
)

// touchView is a touch in JSON.
type touchView struct {
	ID        view.ID    `json:"id"`
	SafeUntil *time.Time `json:"safe_until,omitempty"`
}

func newTouch(env *cli.Env) *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use: "touch", Short: "Touch a session once", Args: cli.NoArgs,
		Long: `Touch a session once, at the node that owns it, and print the time until which the cluster promises
not to expire it. The command prints no time when the cluster cannot promise any. The command fails
if the session was resumed after the token was issued.`,
		RunE: cli.Run(env, &f, runTouch),
	}
	f.token.Register(cmd)
	return cmd
}

func runTouch(ctx context.Context, env *cli.Env, f *tokenFlags, _ []string) error {
	token, err := f.token.Token(ctx, env.Stdin)
	if err != nil {
		return err
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		results, err := cl.Touch(ctx, []session.Token{token})
		if err != nil {
			return err
		}
		r := results[0]
		switch {
		case r.Err != nil && token.Local && errors.Is(r.Err, session.ErrMoved):
			return fmt.Errorf("touch session %v: the session is local to node %d, and only that node can touch it: name "+
				"the node with --endpoints; if it refuses too, the session was resumed there after the token was issued: %w",
				r.ID, r.ID.Node(), r.Err)
		case r.Err != nil:
			return fmt.Errorf("touch session %v: %w", r.ID, r.Err)
		}
		return env.Out.Print(touchView{view.ID(r.ID), view.Time(r.SafeUntil)}, func() string {
			return cli.Properties([][]string{{"id", r.ID.String()}, {"safe until", words.Moment(r.SafeUntil)}})
		})
	})
}
