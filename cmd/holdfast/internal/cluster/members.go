package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// memberView is a member in JSON.
type memberView struct {
	Node          session.Node `json:"node"`
	Voter         bool         `json:"voter"`
	Leader        bool         `json:"leader"`
	ClientAddress string       `json:"client_address"`
	RaftAddress   string       `json:"raft_address"`
	PeerAddress   string       `json:"peer_address"`
	Observer      bool         `json:"observer,omitempty"`
	Leaving       bool         `json:"leaving,omitempty"`
}

// voterText shows whether a member votes, and a pending change.
func voterText(m client.Member) string {
	switch {
	case m.Leaving:
		return cli.YesNo(m.Voter) + ", leaving"
	case m.Observer:
		return cli.YesNo(m.Voter) + ", observer"
	}
	return cli.YesNo(m.Voter)
}

func newMembers(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "members", Short: "List the members of the cluster", Args: cli.NoArgs,
		RunE: cli.Run(env, &cli.NoFlags{}, runMembers),
	}
}

func runMembers(ctx context.Context, env *cli.Env, _ *cli.NoFlags, _ []string) error {
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		members, err := cl.Members(ctx)
		if err != nil {
			return err
		}
		views := make([]memberView, 0, len(members))
		rows := make([][]string, 0, len(members))
		for _, m := range members {
			views = append(views, memberView(m))
			rows = append(rows, []string{
				cli.Number(m.Node), voterText(m), cli.YesNo(m.Leader), m.ClientAddress, m.RaftAddress, m.PeerAddress,
			})
		}
		return env.Out.Print(views, func() string {
			return cli.Table([]string{"NODE", "VOTER", "LEADER", "CLIENT", "RAFT", "PEER"}, rows)
		})
	})
}

// changedView is a member after a change, in JSON. Member is absent when the node is not a member.
type changedView struct {
	Node   session.Node `json:"node"`
	Member *memberView  `json:"member,omitempty"`
}

func (v changedView) text() string {
	switch {
	case v.Member == nil:
		return fmt.Sprintf("node %d is not a member", v.Node)
	case v.Member.Leaving:
		return fmt.Sprintf("node %d is being removed", v.Node)
	case v.Member.Voter && v.Member.Observer:
		return fmt.Sprintf("node %d is being demoted", v.Node)
	case v.Member.Voter:
		return fmt.Sprintf("node %d is a voter", v.Node)
	case v.Member.Observer:
		return fmt.Sprintf("node %d is an observer", v.Node)
	default:
		return fmt.Sprintf("node %d becomes a voter when it has caught up", v.Node)
	}
}

// memberChange is a change of a member. Its functions get nil for a node that is not a member.
type memberChange struct {
	node session.Node
	// request sends the change to the cluster.
	request func(ctx context.Context, cl *client.Client) error
	// desired reports whether the cluster still wants the change: another operator may have overridden it.
	desired func(member *memberView) bool
	// done reports whether the change is complete; nil means that nothing has to be awaited.
	done func(member *memberView) bool
}

// apply requests a change, and waits until it is complete. Each call has its own time limit.
func (c memberChange) apply(ctx context.Context, env *cli.Env, noWait bool) error {
	return env.Cluster.Connect(func(cl *client.Client) error {
		calling, cancel := env.Cluster.WithTimeout(ctx)
		defer cancel()
		if err := c.request(calling, cl); err != nil {
			return err
		}
		for {
			now, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (*memberView, error) {
				return memberNow(ctx, cl, c.node)
			})
			if err != nil {
				return err
			}
			switch v := (changedView{c.node, now}); {
			case !c.desired(now):
				return fmt.Errorf("node %d: another change overrode this one: %s", c.node, v.text())
			case noWait || c.done == nil || c.done(now):
				return env.Out.Print(v, v.text)
			}
			if err := session.Sleep(ctx, pollInterval); err != nil {
				return err
			}
		}
	})
}

// memberNow returns a member as the leader knows it, nil for a node that is not a member.
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

func wantsVote(m *memberView) bool     { return m != nil && !m.Leaving && !m.Observer }
func wantsObserver(m *memberView) bool { return m != nil && !m.Leaving && m.Observer }
func wantsRemoval(m *memberView) bool  { return m == nil || m.Leaving }

// addFlags are the flags of "cluster add".
type addFlags struct{ raft, peer, client string }

func newAdd(env *cli.Env) *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use: "add NODE HOST", Short: "Add a node to the cluster", Args: arg.Two("NODE", "HOST"),
		Long: `Add a node to the cluster. NODE is its number, and HOST the host on which it runs. Start the node
first, on an empty data directory, with itself and all members in its setting peers.

The node becomes an observer: it serves clients, and has no vote. "holdfast cluster promote" gives
it a vote.

A number can be used once: no earlier node may have had it.`,
		Example: "  holdfast cluster add 4 n4.example.org",
		RunE:    cli.Run(env, &f, runAdd),
	}
	cmd.Flags().StringVar(&f.raft, "raft-address", "", "its raft_listen, as other nodes reach it (default HOST:7401)")
	cmd.Flags().StringVar(&f.peer, "peer-address", "", "its peer_listen, as other nodes reach it (default HOST:7402)")
	cmd.Flags().StringVar(&f.client, "client-address", "", "its client_listen, as clients reach it (default HOST:7400)")
	return cmd
}

func runAdd(ctx context.Context, env *cli.Env, f *addFlags, args []string) error {
	node, err := parseNode(args[0])
	if err != nil {
		return err
	}
	at := session.MemberPlace{
		Node:   node,
		Raft:   cmp.Or(f.raft, net.JoinHostPort(args[1], "7401")),
		Peer:   cmp.Or(f.peer, net.JoinHostPort(args[1], "7402")),
		Client: cmp.Or(f.client, net.JoinHostPort(args[1], "7400")),
	}
	return memberChange{
		node:    node,
		request: func(ctx context.Context, cl *client.Client) error { return cl.AddMember(ctx, at) },
		desired: func(m *memberView) bool { return wantsVote(m) || wantsObserver(m) },
	}.apply(ctx, env, false)
}

// changeFlags are the flags of "cluster promote" and "cluster demote".
type changeFlags struct{ noWait bool }

func newPromote(env *cli.Env) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use: "promote NODE", Short: "Promote an observer to a voter", Args: arg.One("NODE"),
		Long: `Promote an observer to a voter, when it has caught up. The command waits for that.

The cluster refuses the change when the reachable voters would not be a quorum afterwards.`,
		Example: "  holdfast cluster promote 4",
		RunE:    cli.Run(env, &f, runPromote),
	}
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "request the change, and do not wait for the vote")
	return cmd
}

func runPromote(ctx context.Context, env *cli.Env, f *changeFlags, args []string) error {
	node, err := parseNode(args[0])
	if err != nil {
		return err
	}
	return memberChange{
		node: node, desired: wantsVote, done: func(m *memberView) bool { return m.Voter },
		request: func(ctx context.Context, cl *client.Client) error { return cl.PromoteMember(ctx, node) },
	}.apply(ctx, env, f.noWait)
}

func newDemote(env *cli.Env) *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use: "demote NODE", Short: "Demote a voter to an observer", Args: arg.One("NODE"),
		Long: `Demote a voter to an observer, which serves clients. A leader transfers leadership first.

The cluster refuses the change when the reachable voters would not be a quorum afterwards.`,
		Example: "  holdfast cluster demote 4",
		RunE:    cli.Run(env, &f, runDemote),
	}
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "request the change, and do not wait for its end")
	return cmd
}

func runDemote(ctx context.Context, env *cli.Env, f *changeFlags, args []string) error {
	node, err := parseNode(args[0])
	if err != nil {
		return err
	}
	return memberChange{
		node: node, desired: wantsObserver, done: func(m *memberView) bool { return !m.Voter },
		request: func(ctx context.Context, cl *client.Client) error { return cl.DemoteMember(ctx, node) },
	}.apply(ctx, env, f.noWait)
}

// removeFlags are the flags of "cluster remove".
type removeFlags struct{ yes, noWait bool }

func newRemove(env *cli.Env) *cobra.Command {
	var f removeFlags
	cmd := &cobra.Command{
		Use: "remove NODE", Short: "Remove a member", Args: arg.One("NODE"),
		Long: `Remove a member, running or not. A running member is drained first: its clients move to the other
nodes, and lose no promise. The command waits until the node is not a member; then stop it.

A removal cannot be undone: no node can use the number again. So the command requires --yes.

The cluster refuses the change when the reachable voters would not be a quorum afterwards.`,
		Example: "  holdfast cluster remove 1 --yes",
		RunE:    cli.Run(env, &f, runRemove),
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "confirm the removal, which cannot be undone")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "request the change, and do not wait for its end")
	return cmd
}

func runRemove(ctx context.Context, env *cli.Env, f *removeFlags, args []string) error {
	node, err := parseNode(args[0])
	if err != nil {
		return err
	}
	if !f.yes {
		return cli.Usage("remove node %d: no node can use the number again: pass --yes to confirm", node)
	}
	return memberChange{
		node: node, desired: wantsRemoval, done: func(m *memberView) bool { return m == nil },
		request: func(ctx context.Context, cl *client.Client) error { return cl.RemoveMember(ctx, node) },
	}.apply(ctx, env, f.noWait)
}

func newTransferLeader(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "transfer-leader [NODE]", Short: "Transfer leadership to another voter", Args: cobra.MaximumNArgs(1),
		Long: `Transfer leadership to the voter with a number, or to the voter whose log is most up to date. The
leader refuses when that node is not a voter or does not answer.`,
		Example: "  holdfast cluster transfer-leader 2",
		RunE:    cli.Run(env, &cli.NoFlags{}, runTransferLeader),
	}
}

// transferredView says in JSON that leadership was transferred.
type transferredView struct {
	Transferred bool `json:"transferred"`
}

func runTransferLeader(ctx context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
	var node session.Node
	if len(args) > 0 {
		var err error
		if node, err = parseNode(args[0]); err != nil {
			return err
		}
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		if err := cl.TransferLeadership(ctx, node); err != nil {
			return err
		}
		return env.Out.Print(transferredView{true}, func() string { return "leadership was transferred" })
	})
}
