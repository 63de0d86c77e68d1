package client

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"holdfast/client/internal/unary"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Status is the report of a node about itself.
type Status struct {
	// Address is the endpoint that [Client.Status] asked.
	Address   string
	Node      session.Node
	ClusterID string
	// Role is leader, follower, observer, candidate or unknown.
	Role string
	Term uint64
	// Leader is 0 when the node knows no leader.
	Leader                    session.Node
	LeaderAddress             string
	CommitIndex, AppliedIndex uint64
	// Global and Local are the numbers of sessions that the node knows. Attached is the number of sessions whose
	// touches it takes.
	Global, Local, Attached uint64
	// Ready says that the node is ready to serve; otherwise NotReadyBecause has the reason.
	Ready           bool
	NotReadyBecause string
	// Warning is a problem that a person should look into although the node serves; empty for none.
	Warning string
	// Mode says what the node can do for clients (N1); 0 is a mode that this program does not know.
	Mode session.Mode
	// MaxSessions bounds the number of Global sessions. StateBytes is the memory of a node that the replicated state
	// takes, as the cluster counts it, and MaxStateBytes bounds it. A bound is 0 until the log has it (O4).
	MaxSessions, StateBytes, MaxStateBytes uint64
	// StateDigest is the digest of the replicated state, in hexadecimal. All nodes have the same digest at the same
	// AppliedIndex.
	StateDigest string
	Version     string
	// FeatureLevel is the feature level of the cluster (W8).
	FeatureLevel uint32
	// TreeEntries are the entries of the tree, TreeEphemerals the ephemeral ones among them. TreeBytes are the
	// memory that they take, which max_tree_bytes bounds. Watches are those of the node's connections.
	TreeEntries, TreeEphemerals, TreeBytes, Watches uint64
	// Drain is nil while the node is not being drained.
	Drain *Drain
	// Freezing is nil while the cluster is not frozen, as far as the node knows.
	Freezing *Freezing
	// Turnover is what the node has applied since its process began: two answers tell rates.
	Turnover session.Turnover
}

// Outranks reports whether the node of s knows more of its cluster than another: a leader, in a higher term, or more of
// the log.
func Outranks(s, other *Status) bool {
	if knows := s.Leader != 0; knows != (other.Leader != 0) {
		return knows
	}
	if s.Term != other.Term {
		return s.Term > other.Term
	}
	return s.AppliedIndex > other.AppliedIndex
}

// Status asks the node at endpoint, host:port, and no other node, once. The endpoint need not be one of the client's
// servers. The error is [ErrUnreachable] when the node does not answer. Safe for concurrent use.
func (c *Client) Status(ctx context.Context, endpoint string) (Status, error) {
	var answer *holdfastv1.GetStatusResponse
	err := c.nodes.At(ctx, endpoint, func(ctx context.Context, cc *grpc.ClientConn) (err error) {
		answer, err = holdfastv1.NewClusterServiceClient(cc).GetStatus(ctx, &holdfastv1.GetStatusRequest{})
		return err
	})
	if err != nil {
		return Status{}, fmt.Errorf("ask %s for its status: %w", endpoint, err)
	}
	if slices.Contains(c.nodes.Servers(), endpoint) { // another endpoint may belong to another cluster
		c.seen.note(told{cluster: answer.GetCluster(), index: answer.GetAppliedIndex()})
	}
	freezing, err := freezingFrom(answer.GetFreezing())
	if err != nil {
		return Status{}, fmt.Errorf("read the status of %s: %w", endpoint, err)
	}
	return Status{
		Address: endpoint, Node: session.Node(answer.GetId()), ClusterID: answer.GetClusterId(),
		Role: role(answer.GetRole()),
		Term: answer.GetTerm(), Leader: session.Node(answer.GetLeader()), LeaderAddress: answer.GetLeaderAddress(),
		CommitIndex: answer.GetCommitIndex(), AppliedIndex: answer.GetAppliedIndex(),
		Global: answer.GetSessionsGlobal(), Local: answer.GetSessionsLocal(), Attached: answer.GetSessionsAttached(),
		Ready: answer.GetReady(), NotReadyBecause: answer.GetNotReadyBecause(), Warning: answer.GetWarning(),
		MaxSessions: answer.GetMaxSessions(), StateBytes: answer.GetStateBytes(),
		MaxStateBytes: answer.GetMaxStateBytes(),
		Mode:          wire.ModeFrom(answer.GetMode()), StateDigest: answer.GetStateDigest(),
		Version: answer.GetVersion(), FeatureLevel: answer.GetFeatureLevel(),
		TreeEntries: answer.GetTreeEntries(), TreeEphemerals: answer.GetTreeEphemerals(),
		TreeBytes: answer.GetTreeBytes(), Watches: answer.GetWatches(),
		Drain: drainFrom(answer.GetDrain()), Freezing: freezing, Turnover: turnoverFrom(answer.GetTurnover()),
	}, nil
}

func turnoverFrom(t *holdfastv1.Turnover) session.Turnover {
	return session.Turnover{
		Opens: t.GetOpens(), Moves: t.GetMoves(), Closes: t.GetCloses(), Expiries: t.GetExpiries(), Kills: t.GetKills(),
		TreeWrites: t.GetTreeWrites(),
	}
}

func role(r holdfastv1.Role) string {
	switch r {
	case holdfastv1.Role_ROLE_LEADER:
		return "leader"
	case holdfastv1.Role_ROLE_FOLLOWER:
		return "follower"
	case holdfastv1.Role_ROLE_OBSERVER:
		return "observer"
	case holdfastv1.Role_ROLE_CANDIDATE:
		return "candidate"
	case holdfastv1.Role_ROLE_UNSPECIFIED:
		return "unknown"
	default:
		return "unknown"
	}
}

// Member is a member of the cluster. Its addresses are host:port.
type Member struct {
	Node session.Node
	// Voter says that the member has a vote in elections, and Leader that the answering node takes it for the leader.
	Voter, Leader            bool
	ClientAddress            string
	RaftAddress, PeerAddress string
	// Observer says that the member is to have no vote, Leaving that it is being removed.
	Observer, Leaving bool
}

// Members returns the members of the cluster, as the newest configuration that the answering node knows lists them. It
// asks one server after the other until ctx ends. Safe for concurrent use.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	return c.membersFrom(ctx, c.nodes.Any, &holdfastv1.ListMembersRequest{})
}

// MembersOfLeader is [Client.Members] as the leader lists them: a node that was removed may list itself for ever,
// because Raft sends it nothing any more. It looks for the leader until ctx ends. Safe for concurrent use.
func (c *Client) MembersOfLeader(ctx context.Context) ([]Member, error) {
	return c.membersFrom(ctx, c.nodes.Leader, &holdfastv1.ListMembersRequest{FromLeader: true})
}

func (c *Client) membersFrom(ctx context.Context, ask func(context.Context, unary.Call) error,
	req *holdfastv1.ListMembersRequest,
) ([]Member, error) {
	var members []Member
	err := ask(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		answer, err := holdfastv1.NewClusterServiceClient(cc).ListMembers(ctx, req)
		members = make([]Member, 0, len(answer.GetMembers()))
		for _, m := range answer.GetMembers() {
			members = append(members, Member{
				Node: session.Node(m.GetId()), Voter: m.GetVoter(), Leader: m.GetLeader(),
				ClientAddress: m.GetClientAddress(), RaftAddress: m.GetRaftAddress(), PeerAddress: m.GetPeerAddress(),
				Observer: m.GetObserver(), Leaving: m.GetLeaving(),
			})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return members, nil
}
