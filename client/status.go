package client

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Status is what a node says of itself.
type Status struct {
	// Address is the endpoint that was asked.
	Address                   string
	Node                      session.Node
	ClusterID                 string
	Role                      string // leader, follower, observer or candidate
	Term                      uint64
	Leader                    session.Node // 0 when none is known
	LeaderAddress             string
	CommitIndex, AppliedIndex uint64
	// Global and Local sessions the node knows, and those Attached, whose touches it takes.
	Global, Local, Attached uint64
	Ready                   bool
	NotReadyBecause         string
	// Warning is what a person should look into although the node serves.
	Warning string
	// Mode is what the node can do for clients (N1); 0 when it does not say.
	Mode session.Mode
	// MaxSessions is how many Global sessions there may be, StateBytes what the replicated state takes of a node's
	// memory as the cluster counts, and MaxStateBytes how much it may take; a bound of 0 is none, or one that the node
	// does not tell.
	MaxSessions, StateBytes, MaxStateBytes uint64
	// StateDigest is hexadecimal; the same on every node at the same applied index.
	StateDigest string
	Version     string
}

// Status asks the node at endpoint, and no other. The error is [ErrUnreachable] when it does not answer.
func (c *Client) Status(ctx context.Context, endpoint string) (Status, error) {
	var answer *holdfastv1.GetStatusResponse
	err := c.nodes.At(ctx, endpoint, func(ctx context.Context, cc *grpc.ClientConn) (err error) {
		answer, err = holdfastv1.NewClusterServiceClient(cc).GetStatus(ctx, &holdfastv1.GetStatusRequest{})
		return err
	})
	if err != nil {
		return Status{}, fmt.Errorf("ask %s for its status: %w", endpoint, err)
	}
	if slices.Contains(c.nodes.Servers(), endpoint) { // any address may be asked, a node of another cluster too
		c.seen.note(answer.GetAppliedIndex())
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
		Version: answer.GetVersion(),
	}, nil
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

// Member is a member of the cluster.
type Member struct {
	Node                     session.Node
	Voter, Leader            bool
	ClientAddress            string
	RaftAddress, PeerAddress string
}

// Members returns the members of the newest configuration that the node which answers knows, in its order.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	var members []Member
	err := c.nodes.Any(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
		answer, err := holdfastv1.NewClusterServiceClient(cc).ListMembers(ctx, &holdfastv1.ListMembersRequest{})
		members = make([]Member, 0, len(answer.GetMembers()))
		for _, m := range answer.GetMembers() {
			members = append(members, Member{
				Node: session.Node(m.GetId()), Voter: m.GetVoter(), Leader: m.GetLeader(),
				ClientAddress: m.GetClientAddress(), RaftAddress: m.GetRaftAddress(), PeerAddress: m.GetPeerAddress(),
			})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return members, nil
}
