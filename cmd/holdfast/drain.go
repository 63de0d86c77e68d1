package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// drainLook is how often the command asks how far the node has come.
const drainLook = 250 * time.Millisecond

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

// text says how far the drain has come.
func (d *drainView) text() string {
	word := "DRAINING"
	if d.Done {
		word = "DRAINED"
	}
	if left := d.left(); left != "" {
		return word + ": " + left
	}
	return word
}

// left says what the node still has; "" for nothing.
func (d *drainView) left() string {
	var left []string
	if d.Leads {
		left = append(left, "it leads still")
	}
	if d.Sessions > 0 {
		left = append(left, fmt.Sprintf("%d sessions on %d connections", d.Sessions, d.Connections))
	}
	if d.Local > 0 {
		left = append(left, fmt.Sprintf("%d local sessions, which end with it", d.Local))
	}
	return strings.Join(left, ", ")
}

func (c *cli) clusterDrain() *cobra.Command {
	var force, noWait bool
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Send leadership and clients of a node to the others", Args: arg.One("NODE"),
		Long: `Send leadership and clients of the node with a number to the other nodes, before the node is
taken away. Its clients move their sessions at once, and lose no promise. The command waits until
nobody has to be waited for any more: after drain_timeout the node ends the connections of the
clients that have not gone.

The node refuses new sessions, and its /healthz answers 503, until "holdfast cluster undrain" or a
restart of the node. Local sessions stay, and end with the node's process.

A node is not drained when the others are no quorum without it, or cannot take its clients: --force
drains it all the same.`,
		Example: "  holdfast cluster drain 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			return c.target.with(func(cl *client.Client) error {
				return c.drain(cmd.Context(), cl, node, drainOptions{force, noWait})
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "drain it whatever the others can do")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "begin, and do not wait for the clients")
	return cmd
}

// drainOptions are the flags of the command.
type drainOptions struct{ force, noWait bool }

// drain begins, and waits as long as the node does. Each call has its own time.
func (c *cli) drain(ctx context.Context, cl *client.Client, node session.Node, o drainOptions) error {
	calling, cancel := c.target.bounded(ctx)
	defer cancel()
	endpoint, err := c.target.endpointOf(calling, cl, node)
	if err != nil {
		return err
	}
	now, err := cl.DrainNode(calling, endpoint, node, o.force)
	if err != nil {
		return c.target.silentAt(endpoint, node, err)
	}
	for !now.Done && !o.noWait {
		if err := session.Sleep(ctx, drainLook); err != nil {
			return err
		}
		asking, cancel := c.target.bounded(ctx)
		st, err := cl.Status(asking, endpoint)
		cancel()
		switch {
		case err != nil:
			return c.target.silentAt(endpoint, node, err)
		case st.Drain == nil:
			return fmt.Errorf("node %d is not being drained any more: somebody has undrained or restarted it", node)
		}
		now = *st.Drain
	}
	view := viewDrain(&now)
	return c.out.print(view, func() string { return fmt.Sprintf("node %d: %s", node, view.text()) })
}

func (c *cli) clusterUndrain() *cobra.Command {
	return &cobra.Command{
		Use: "undrain NODE", Short: "Have a node take clients again", Args: arg.One("NODE"),
		Long: `Have the node with a number take clients and leadership again, after "holdfast cluster drain".
Clients do not come back by themselves: new ones, and those that move, come to it.`,
		Example: "  holdfast cluster undrain 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				endpoint, err := c.target.endpointOf(ctx, cl, node)
				if err != nil {
					return err
				}
				was, err := cl.UndrainNode(ctx, endpoint, node)
				if err != nil {
					return c.target.silentAt(endpoint, node, err)
				}
				return c.out.print(undrainedView{was}, func() string {
					if !was {
						return fmt.Sprintf("node %d was not being drained", node)
					}
					return fmt.Sprintf("node %d takes clients again", node)
				})
			})
		},
	}
}

// undrainedView says in JSON whether a node was being drained.
type undrainedView struct {
	Drained bool `json:"drained"`
}

func nodeNumber(s string) (session.Node, error) {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || !session.Node(n).Valid() {
		return 0, usage("NODE %q: want the number of a node, 1 to %d", s, session.MaxNode)
	}
	return session.Node(n), nil
}

// endpointOf returns where a node can be asked: the endpoint that is this node, or else the client address that the
// members have of it. An address may be good for the nodes alone.
func (t *target) endpointOf(ctx context.Context, cl *client.Client, node session.Node) (string, error) {
	var failed []error
	for _, endpoint := range t.endpoints {
		st, err := t.statusOf(ctx, cl, endpoint)
		switch {
		case err != nil:
			failed = append(failed, err)
		case st.Node == node:
			return endpoint, nil
		}
	}
	members, err := cl.Members(ctx)
	if err != nil {
		return "", silentNodes(append(failed, err))
	}
	for _, m := range members {
		if m.Node == node && m.ClientAddress != "" {
			return m.ClientAddress, nil
		}
	}
	return "", fmt.Errorf("node %d: %w", node, &session.FieldError{Field: "node", Limit: "a member of the cluster"})
}

// silentAt returns the error of a call to one node, of a cluster that has said where this node is. That the node is
// silent does not mean that no node of the cluster can be reached.
func (t *target) silentAt(endpoint string, node session.Node, err error) error {
	if !errors.Is(err, client.ErrUnreachable) {
		return err
	}
	return fmt.Errorf("node %d does not answer at %s, though its cluster does: %s", node, endpoint, t.brief(endpoint, err))
}
