package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// pollInterval is the time between two requests while a command waits for a change.
const pollInterval = 250 * time.Millisecond

// drainFlags are the flags of "cluster drain".
type drainFlags struct{ force, noWait bool }

func newDrain(env *cli.Env) *cobra.Command {
	var f drainFlags
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Move leadership and clients of a node to other nodes", Args: arg.One("NODE"),
		Long: `Move leadership and clients of a node to the other nodes, before the node is stopped. NODE is the
number of the node. Its clients move their sessions at once and lose no promise. The command waits
until the drain is complete: after drain_timeout the node closes the connections of clients that
have not moved.

The node refuses new sessions, and its /healthz answers 503, until "holdfast cluster undrain" or a
restart of the node. Local sessions stay, and end with the node's process.

The cluster refuses to drain a node when the other nodes have no quorum, or cannot take its clients:
--force drains it anyway.`,
		Example: "  holdfast cluster drain 2",
		RunE:    cli.Run(env, &f, runDrain),
	}
	cmd.Flags().BoolVar(&f.force, "force", false, "drain the node without checking the other nodes")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "start the drain, and do not wait for its end")
	return cmd
}

// runDrain starts a drain, and waits for its end. Each call has its own time limit.
func runDrain(ctx context.Context, env *cli.Env, f *drainFlags, args []string) error {
	node, err := parseNode(args[0])
	if err != nil {
		return err
	}
	return env.Cluster.Connect(func(cl *client.Client) error {
		calling, cancel := env.Cluster.WithTimeout(ctx)
		defer cancel()
		endpoint, err := endpointOf(calling, env, cl, node)
		if err != nil {
			return err
		}
		drain, err := cl.DrainNode(calling, endpoint, node, f.force)
		if err != nil {
			return nodeError(env, endpoint, node, err)
		}
		for !drain.Done && !f.noWait {
			if err := session.Sleep(ctx, pollInterval); err != nil {
				return err
			}
			st, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.Status, error) {
				return cl.Status(ctx, endpoint)
			})
			switch {
			case err != nil:
				return nodeError(env, endpoint, node, err)
			case st.Drain == nil:
				return fmt.Errorf("node %d is no longer being drained: it was undrained or restarted", node)
			}
			drain = *st.Drain
		}
		v := viewDrain(&drain)
		return env.Out.Print(v, func() string { return fmt.Sprintf("node %d: %s", node, v.text()) })
	})
}

func newUndrain(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "undrain NODE", Short: "End the drain of a node", Args: arg.One("NODE"),
		Long: `End the drain of a node: it accepts clients and leadership again. Clients do not move back by
themselves: new clients, and clients that move for another reason, come to the node.`,
		Example: "  holdfast cluster undrain 2",
		RunE:    cli.Run(env, &cli.NoFlags{}, runUndrain),
	}
}

// undrainedView says in JSON whether the node was being drained.
type undrainedView struct {
	Drained bool `json:"drained"`
}

func runUndrain(ctx context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
	node, err := parseNode(args[0])
	if err != nil {
		return err
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		endpoint, err := endpointOf(ctx, env, cl, node)
		if err != nil {
			return err
		}
		was, err := cl.UndrainNode(ctx, endpoint, node)
		if err != nil {
			return nodeError(env, endpoint, node, err)
		}
		return env.Out.Print(undrainedView{was}, func() string {
			if !was {
				return fmt.Sprintf("node %d was not being drained", node)
			}
			return fmt.Sprintf("node %d accepts clients again", node)
		})
	})
}

// drainView is a drain in JSON.
type drainView struct {
	Since       string `json:"since"`
	Connections uint64 `json:"connections"`
	Sessions    uint64 `json:"sessions"`
	Local       uint64 `json:"sessions_local"`
	Leads       bool   `json:"leads"`
	Done        bool   `json:"done"`
}

func viewDrain(d *client.Drain) *drainView {
	if d == nil {
		return nil
	}
	return &drainView{
		Since: d.Since.UTC().Format(time.RFC3339Nano), Connections: d.Connections, Sessions: d.Sessions, Local: d.Local,
		Leads: d.Leads, Done: d.Done,
	}
}

// text shows the progress of the drain.
func (d *drainView) text() string {
	state := "DRAINING"
	if d.Done {
		state = "DRAINED"
	}
	if left := d.remaining(); left != "" {
		return state + ": " + left
	}
	return state
}

// remaining lists what the node still has, "" for nothing.
func (d *drainView) remaining() string {
	var left []string
	if d.Leads {
		left = append(left, "still the leader")
	}
	if d.Sessions > 0 {
		left = append(left, fmt.Sprintf("%d sessions on %d connections", d.Sessions, d.Connections))
	}
	if d.Local > 0 {
		left = append(left, fmt.Sprintf("%d local sessions, which end with the node", d.Local))
	}
	return strings.Join(left, ", ")
}

// parseNode reads the number of a node given as an argument.
func parseNode(s string) (session.Node, error) {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || !session.Node(n).Valid() {
		return 0, cli.Usage("NODE %q: want the number of a node, 1 to %d", s, session.MaxNode)
	}
	return session.Node(n), nil
}

// endpointOf returns an address of a node: the endpoint of the command line that is this node, or else the node's
// client address in the list of members, which may be reachable for nodes only.
func endpointOf(ctx context.Context, env *cli.Env, cl *client.Client, node session.Node) (string, error) {
	var failed []error
	for _, endpoint := range env.Cluster.Endpoints {
		st, err := env.Cluster.StatusOf(ctx, cl, endpoint)
		switch {
		case err != nil:
			failed = append(failed, err)
		case st.Node == node:
			return endpoint, nil
		}
	}
	members, err := cl.Members(ctx)
	if err != nil {
		return "", cli.JoinNodes(append(failed, err))
	}
	for _, m := range members {
		if m.Node == node && m.ClientAddress != "" {
			return m.ClientAddress, nil
		}
	}
	return "", fmt.Errorf("node %d: %w", node, &session.FieldError{Field: "node", Limit: "a member of the cluster"})
}

// nodeError returns the error of a call to one node of a cluster that can be reached: that the node does not answer
// does not mean that the cluster is unreachable.
func nodeError(env *cli.Env, endpoint string, node session.Node, err error) error {
	if !errors.Is(err, client.ErrUnreachable) {
		return err
	}
	return fmt.Errorf("node %d does not answer at %s, but other nodes of the cluster do: %s", node, endpoint,
		env.Cluster.Cause(endpoint, err))
}
