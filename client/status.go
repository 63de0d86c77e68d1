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
	// Address is the endpoint that answered [Client.Status].
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
	// Global and Local are the numbers of sessions that the node knows. Attached is the number of sessions that the
	// node serves.
	Global, Local, Attached uint64
	// Ready reports whether the node is ready to serve; if not, NotReadyBecause has the reason.
	Ready           bool
	NotReadyBecause string
	// Warning is a problem that a person should investigate although the node serves; empty for none.
	Warning string
	// Mode is what the node can do for clients (N1 node mode); 0 is a mode that this program does not know.
	Mode session.Mode
	// MaxSessions bounds the number of Global sessions. StateBytes is the memory of the replicated state, as the
	// cluster counts it, and MaxStateBytes bounds it. A bound is 0 until the log has the bound (O4 state limits).
	MaxSessions, StateBytes, MaxStateBytes uint64
	// StateDigest is the digest of the replicated state, in hexadecimal. All nodes have the same digest at the same
	// AppliedIndex.
	StateDigest string
	Version     string
	// FeatureLevel is the feature level of the cluster (W8 feature level).
	FeatureLevel uint32
	// TreeEntries counts the entries of the tree, TreeEphemerals the ephemeral entries among them. TreeBytes is the
	// memory of the entries, which max_tree_bytes bounds. Watches counts the watches of the node's connections.
	TreeEntries, TreeEphemerals, TreeBytes, Watches uint64
	// Drain is nil while the node is not being drained.
	Drain *Drain
	// Freezing is nil while the cluster is not frozen, as far as the node knows.
	Freezing *Freezing
	// Turnover counts the work that the node has applied since its process started: two readings give rates.
	Turnover session.Turnover
}

// Outranks reports whether s has better knowledge of the cluster than other: s leads, has a higher term, or has more of
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
	if slices.Contains(c.nodes.Servers(), endpoint) { // an endpoint outside the list may belong to another cluster
		c.seen.note(nodeReport{cluster: answer.GetCluster(), index: answer.GetAppliedIndex()})
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
	// Voter reports whether the member has a vote in elections, and Leader whether the answering node believes the
	// member leads.
	Voter, Leader            bool
	ClientAddress            string
	RaftAddress, PeerAddress string
	// Observer reports whether the member is to have no vote, Leaving whether it is being removed.
	Observer, Leaving bool
}

// Members returns the members of the cluster, from the newest configuration that the answering node knows. It asks one
// server after the other until ctx ends. Safe for concurrent use.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	return c.membersFrom(ctx, c.nodes.Any, &holdfastv1.ListMembersRequest{})
}

// MembersOfLeader is [Client.Members] from the leader: a removed node may list itself for ever, because Raft no longer
// sends it changes. MembersOfLeader searches for the leader until ctx ends. Safe for concurrent use.
func (c *Client) MembersOfLeader(ctx context.Context) ([]Member, error) {
	return c.membersFrom(ctx, c.nodes.Leader, &holdfastv1.ListMembersRequest{FromLeader: true})
}

func (c *Client) membersFrom(ctx context.Context, call func(context.Context, unary.Call) error,
	req *holdfastv1.ListMembersRequest,
) ([]Member, error) {
	var members []Member
	err := call(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
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
