package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

// freezeView is the outcome of a freeze or thaw in JSON.
type freezeView struct {
	Frozen bool  `json:"frozen"`
	ForMS  int64 `json:"for_ms,omitempty"`
}

// freezeFlags are the flags of "cluster freeze".
type freezeFlags struct {
	span   time.Duration
	reason string
}

func newFreeze(env *cli.Env) *cobra.Command {
	var f freezeFlags
	cmd := &cobra.Command{
		Use: "freeze", Short: "Suspend all expiry for a time", Args: cli.NoArgs,
		Long: `Suspend all expiry in the cluster for a time: sessions do not expire without touches, and entries of
the tree do not reach the end of their TTL. The freeze ends after --for, or with "holdfast cluster
thaw". Then every session has its full timeout, so that clients can reconnect. A second freeze
replaces the first one.

The cluster promises clients no more than before, and a client whose node is cut off still loses its
promise. Sessions can be closed, moved and killed as usual. During a freeze the locks of dead
clients are not released: keep it short. Every node shows the freeze: "holdfast cluster status",
/healthz, the metric holdfast_freeze_remaining_seconds, and its log each minute.`,
		Example: `  holdfast cluster freeze --for 30m --reason "new switches in rack 7"
  holdfast cluster thaw`,
		RunE: cli.Run(env, &f, runFreeze),
	}
	cmd.Flags().Var(arg.NotNegative(&f.span, 0), "for",
		fmt.Sprintf("how long, 1ms to %s", session.MaxFreeze))
	cmd.Flags().StringVar(&f.reason, "reason", "",
		fmt.Sprintf("reason, which every node shows, at most %d bytes", session.MaxWhy))
	cli.MarkRequired(cmd, "for")
	return cmd
}

func runFreeze(ctx context.Context, env *cli.Env, f *freezeFlags, _ []string) error {
	if err := cli.CheckFreeze(f.span); err != nil {
		return err
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.Freeze(ctx, f.span, f.reason); err != nil {
			return err
		}
		return env.Out.Print(freezeView{true, f.span.Milliseconds()}, func() string {
			return fmt.Sprintf("frozen for %s: nothing expires (holdfast cluster thaw ends it)", f.span)
		})
	})
}

func newThaw(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "thaw", Short: "End a freeze: sessions expire again", Args: cli.NoArgs,
		Long: `End a freeze. Every session has its full timeout from now on. Without a freeze the command changes
nothing.`,
		Example: "  holdfast cluster thaw",
		RunE:    cli.Run(env, &cli.NoFlags{}, runThaw),
	}
}

func runThaw(ctx context.Context, env *cli.Env, _ *cli.NoFlags, _ []string) error {
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.Thaw(ctx); err != nil {
			return err
		}
		return env.Out.Print(freezeView{}, func() string { return "thawed: sessions expire again" })
	})
}

// freezingView is a freeze in JSON.
type freezingView struct {
	LeftMS int64     `json:"left_ms"`
	Since  time.Time `json:"since"`
	By     string    `json:"by,omitempty"`
	Why    string    `json:"why,omitempty"`
}

func viewFreezing(f *client.Freezing) *freezingView {
	if f == nil {
		return nil
	}
	return &freezingView{LeftMS: f.Left.Milliseconds(), Since: f.Since, By: f.By, Why: f.Why}
}

// frozenText describes the freeze, from the first node that shows one; "" without a freeze.
func frozenText(views []statusView) string {
	for i := range views {
		f := views[i].Freezing
		if f == nil {
			continue
		}
		return fmt.Sprintf("frozen for %s more, since %s by %s, reason %q: nothing expires",
			words.Span(time.Duration(f.LeftMS)*time.Millisecond), words.Moment(f.Since), words.OrDash(f.By), f.Why)
	}
	return ""
}
