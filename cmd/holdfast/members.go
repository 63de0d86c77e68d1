package main

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// changedView is a member after a change, in JSON. Member is absent once the node is no member.
type changedView struct {
	Node   session.Node `json:"node"`
	Member *memberView  `json:"member,omitempty"`
}

func (v changedView) text() string {
	switch {
	case v.Member == nil:
		return fmt.Sprintf("node %d is no member", v.Node)
	case v.Member.Leaving:
		return fmt.Sprintf("node %d is being removed", v.Node)
	case v.Member.Voter && v.Member.Observer:
		return fmt.Sprintf("node %d is losing its vote", v.Node)
	case v.Member.Voter:
		return fmt.Sprintf("node %d is a voter", v.Node)
	case v.Member.Observer:
		return fmt.Sprintf("node %d is an observer", v.Node)
	default:
		return fmt.Sprintf("node %d gets its vote once it has caught up", v.Node)
	}
}

// memberCommands are the commands that change the members.
type memberCommands struct{ cli *cli }

// changing is a change of a member.
type changing struct {
	node session.Node
	// do asks for it. wanted says whether it is still wanted, which another operator may have changed, and done whether
	// it has come about; nobody waits for a change without done. member is nil when the node is none.
	do           func(ctx context.Context, cl *client.Client) error
	wanted, done func(member *memberView) bool
}

// change asks for a change, and waits until it has come about. Each call has its own time.
func (c memberCommands) change(ctx context.Context, of changing, wait bool) error {
	return c.cli.target.with(func(cl *client.Client) error {
		calling, cancel := c.cli.target.bounded(ctx)
		defer cancel()
		if err := of.do(calling, cl); err != nil {
			return err
		}
		for {
			asking, cancel := c.cli.target.bounded(ctx)
			now, err := memberNow(asking, cl, of.node)
			cancel()
			if err != nil {
				return err
			}
			switch v := (changedView{of.node, now}); {
			case !of.wanted(now):
				return fmt.Errorf("node %d: another change came in between: %s", of.node, v.text())
			case !wait || of.done == nil || of.done(now):
				return c.cli.out.print(v, v.text)
			}
			if err := session.Sleep(ctx, drainLook); err != nil {
				return err
			}
		}
	})
}

// memberNow returns the member with a number, nil when there is none, by the word of the leader alone.
func memberNow(ctx context.Context, cl *client.Client, node session.Node) (*memberView, error) {
	members, err := cl.MembersOfLeader(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.Node == node {
			v := memberView(m)
			return &v, nil
		}
	}
	return nil, nil //nolint:nilnil // no member has the number
}

func toVote(m *memberView) bool    { return m != nil && !m.Leaving && !m.Observer }
func toObserve(m *memberView) bool { return m != nil && !m.Leaving && m.Observer }
func toLeave(m *memberView) bool   { return m == nil || m.Leaving }

func (c memberCommands) add() *cobra.Command {
	var at session.MemberPlace
	cmd := &cobra.Command{
		Use: "add NODE HOST", Short: "Take a node into the cluster", Args: arg.Two("NODE", "HOST"),
		Long: `Take a node into the cluster that runs on HOST with this number, and waits: it was started on an
empty data directory, with itself and all members in its peers.

It becomes an observer: it serves clients, and has no vote. "holdfast cluster promote" gives it one.

No node may ever have had the number.`,
		Example: "  holdfast cluster add 4 n4.example.org",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			at.Node = node
			at.Raft = cmp.Or(at.Raft, net.JoinHostPort(args[1], "7401"))
			at.Peer = cmp.Or(at.Peer, net.JoinHostPort(args[1], "7402"))
			at.Client = cmp.Or(at.Client, net.JoinHostPort(args[1], "7400"))
			return c.change(cmd.Context(), changing{
				node:   node,
				do:     func(ctx context.Context, cl *client.Client) error { return cl.AddMember(ctx, at) },
				wanted: func(m *memberView) bool { return toVote(m) || toObserve(m) },
			}, true)
		},
	}
	cmd.Flags().StringVar(&at.Raft, "raft-address", "", "its raft_listen, as other nodes reach it (default HOST:7401)")
	cmd.Flags().StringVar(&at.Peer, "peer-address", "", "its peer_listen, as other nodes reach it (default HOST:7402)")
	cmd.Flags().StringVar(&at.Client, "client-address", "", "its client_listen, as clients reach it (default HOST:7400)")
	return cmd
}

func (c memberCommands) promote() *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use: "promote NODE", Short: "Give an observer a vote", Args: arg.One("NODE"),
		Long: `Give an observer a vote, once it has caught up. The command waits for that.

It is refused when the voters that are heard would be no quorum then.`,
		Example: "  holdfast cluster promote 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			return c.change(cmd.Context(), changing{
				node: node, wanted: toVote, done: func(m *memberView) bool { return m.Voter },
				do: func(ctx context.Context, cl *client.Client) error { return cl.PromoteMember(ctx, node) },
			}, !noWait)
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "begin, and do not wait for the vote")
	return cmd
}

func (c memberCommands) demote() *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use: "demote NODE", Short: "Take the vote of a member", Args: arg.One("NODE"),
		Long: `Take the vote of a member. It remains as an observer, and serves clients. A leader hands leadership
over first.

It is refused when the voters that are heard would be no quorum then.`,
		Example: "  holdfast cluster demote 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			return c.change(cmd.Context(), changing{
				node: node, wanted: toObserve, done: func(m *memberView) bool { return !m.Voter },
				do: func(ctx context.Context, cl *client.Client) error { return cl.DemoteMember(ctx, node) },
			}, !noWait)
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "begin, and do not wait until the vote is gone")
	return cmd
}

func (c memberCommands) remove() *cobra.Command {
	var noWait, sure bool
	cmd := &cobra.Command{
		Use: "remove NODE", Short: "Remove a member for good", Args: arg.One("NODE"),
		Long: `Remove a member for good, dead or alive. A member that lives is drained first: its clients go to the
other nodes, and lose no promise. The command waits until the node is no member; then end it.

There is no way back: no node can have the number again. So the command asks for --yes.

It is refused when the voters that are heard would be no quorum then.`,
		Example: "  holdfast cluster remove 1 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			if !sure {
				return usage("no node can have number %d again afterwards: say --yes", node)
			}
			return c.change(cmd.Context(), changing{
				node: node, wanted: toLeave, done: func(m *memberView) bool { return m == nil },
				do: func(ctx context.Context, cl *client.Client) error { return cl.RemoveMember(ctx, node) },
			}, !noWait)
		},
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "remove it, though there is no way back")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "begin, and do not wait until it is removed")
	return cmd
}

// transferredView says in JSON that leadership was handed over.
type transferredView struct {
	Transferred bool `json:"transferred"`
}

func (c memberCommands) transfer() *cobra.Command {
	return &cobra.Command{
		Use: "transfer [NODE]", Short: "Have another node lead", Args: cobra.MaximumNArgs(1),
		Long: `Have another node lead: the one with a number, or the voter that has applied most. It is refused
if that node does not vote or is not heard.`,
		Example: "  holdfast cluster transfer 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			var node session.Node
			if len(args) > 0 {
				var err error
				if node, err = nodeNumber(args[0]); err != nil {
					return err
				}
			}
			return c.cli.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				if err := cl.TransferLeadership(ctx, node); err != nil {
					return err
				}
				return c.cli.out.print(transferredView{true}, func() string { return "leadership was handed over" })
			})
		},
	}
}
