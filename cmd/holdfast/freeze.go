package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

// freezeView is what an operator has done to expiry, in JSON.
type freezeView struct {
	Frozen bool  `json:"frozen"`
	ForMS  int64 `json:"for_ms,omitempty"`
}

func clusterFreeze(c *cli) *cobra.Command {
	var span time.Duration
	var why string
	cmd := &cobra.Command{
		Use: "freeze", Short: "Have nothing expire while you work on the cluster", Args: noArgs,
		Long: `Have nothing expire in the whole cluster for a time: no session, however long its client is silent,
and no entry of the tree that ends by itself. The freeze ends by itself after --for, or with
"holdfast cluster thaw". Then every session has its full timeout, so that clients can come back.
A second freeze takes the place of the first one.

Clients are still promised no more than before, and still lose their promises when their node is cut
off. Sessions are closed, moved and killed as ever. While the cluster is frozen, locks of dead
clients are not released: that is what is asked for, so freeze for as short a time as you can.
Every node shows the freeze: "holdfast cluster status", /healthz, the metric
holdfast_frozen_seconds, and its log each minute.`,
		Example: `  holdfast cluster freeze --for 30m --why "new switches in rack 7"
  holdfast cluster thaw`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkSpan(span); err != nil {
				return err
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				if err := cl.Freeze(ctx, span, why); err != nil {
					return err
				}
				return c.out.print(freezeView{true, span.Milliseconds()}, func() string {
					return fmt.Sprintf("frozen for %s: nothing expires (holdfast cluster thaw ends it)", span)
				})
			})
		},
	}
	cmd.Flags().Var(arg.NotNegative(&span, 0), "for",
		fmt.Sprintf("how long, 1ms to %s; it must be given", session.MaxFreeze))
	cmd.Flags().StringVar(&why, "why", "", fmt.Sprintf("reason, which every node shows, at most %d bytes", session.MaxWhy))
	return cmd
}

// checkSpan checks the length of a freeze.
func checkSpan(span time.Duration) error {
	if span < time.Millisecond || span > session.MaxFreeze || span%time.Millisecond != 0 {
		return usage("--for %s: want 1ms to %s, in whole milliseconds", span, session.MaxFreeze)
	}
	return nil
}

func clusterThaw(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "thaw", Short: "End a freeze", Args: noArgs,
		Long: `End a freeze. Every session then has its full timeout from now on. A cluster that is not frozen
stays as it is.`,
		Example: "  holdfast cluster thaw",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				if err := cl.Thaw(ctx); err != nil {
					return err
				}
				return c.out.print(freezeView{}, func() string { return "thawed: sessions expire again" })
			})
		},
	}
}

// checkExtension checks the length of an extension, which must be given; 0 takes an extension back.
func checkExtension(span time.Duration, given bool) error {
	switch {
	case !given:
		return usage("say for how long: --for 10m")
	case span == 0:
		return nil
	default:
		return checkSpan(span)
	}
}

// extendView is an extension of a session, in JSON.
type extendView struct {
	ID    idText `json:"id"`
	ForMS int64  `json:"for_ms"`
}

func sessionExtend(c *cli) *cobra.Command {
	var span time.Duration
	cmd := &cobra.Command{
		Use: "extend ID", Short: "Keep a session for a time though it is silent", Args: arg.One("ID"),
		Long: `Keep a session for a time though it is silent, for example while its client is in a debugger. After
--for it expires as soon as it has been silent for its timeout. A second extension takes the place of
the first one, and --for 0s takes it back. The time of a freeze does not count.

The session's client is promised no more than before. The session can be closed, moved and killed as
ever. A local session cannot be extended.`,
		Example: `  holdfast session extend 0x01004f2a3c5d0001 --for 10m
  holdfast session why 0x01004f2a3c5d0001`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := idArgument(args[0])
			if err != nil {
				return err
			}
			if err := checkExtension(span, cmd.Flags().Changed("for")); err != nil {
				return err
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				if err := cl.Extend(ctx, id, span); err != nil {
					return err
				}
				return c.out.print(extendView{idText(id), span.Milliseconds()}, func() string {
					if span == 0 {
						return fmt.Sprintf("session %v is extended no more", id)
					}
					return fmt.Sprintf("session %v does not expire within %s", id, span)
				})
			})
		},
	}
	cmd.Flags().Var(arg.NotNegative(&span, 0), "for",
		fmt.Sprintf("how long from now on, at most %s; 0s takes an extension back", session.MaxFreeze))
	return cmd
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

// frozenText says that the cluster is frozen, as the first node knows it that says so; "" if none does.
func frozenText(views []statusView) string {
	for i := range views {
		f := views[i].Freezing
		if f == nil {
			continue
		}
		return fmt.Sprintf("frozen for %s more, since %s by %s, because %q: nothing expires",
			words.Span(time.Duration(f.LeftMS)*time.Millisecond), words.Moment(f.Since), words.OrDash(f.By), f.Why)
	}
	return ""
}
