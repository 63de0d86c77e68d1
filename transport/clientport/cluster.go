package clientport

import (
	"context"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Cluster describes a node and its cluster. Safe for concurrent use.
type Cluster interface {
	// Status describes this node.
	Status(ctx context.Context) (NodeStatus, error)
	// Members returns the members of the newest configuration that this node knows.
	Members() []Member
}

// Role is a node's present role in the cluster.
type Role uint8

// Roles of a node.
const (
	RoleLeader Role = iota + 1
	RoleFollower
	RoleObserver
	RoleCandidate
)

// NodeStatus describes a node. GetStatusResponse in the protocol explains each field.
type NodeStatus struct {
	Node             session.Node
	ClusterID        string
	Role             Role
	Term             uint64
	Leader           session.Node
	LeaderAddress    string
	CommitIndex      uint64
	AppliedIndex     uint64
	SessionsGlobal   uint64
	SessionsLocal    uint64
	SessionsAttached uint64
	Ready            bool
	NotReadyBecause  string
	StateDigest      string
	Version          string
	Mode             session.Mode
	MaxSessions      uint64
	StateBytes       uint64
	MaxStateBytes    uint64
	// Warning describes a problem for an operator that does not keep the node from serving.
	Warning string
	Tree    TreeStatus
	// Drain is nil while the node is not being drained.
	Drain *DrainStatus
	// Freeze is the cluster's freeze, nil for none, and Frozen the rest of its duration (Y3 freeze).
	Freeze *session.Freeze
	Frozen time.Duration
	// Turnover counts the events that the node has applied since its process began.
	Turnover session.Turnover
	// Excluded are the members to which no client should go, according to the leader.
	Excluded session.Excluded
}

// TreeStatus describes the tree of a node, and the cluster's feature level (W8 feature level).
type TreeStatus struct {
	FeatureLevel        uint32
	Entries, Ephemerals uint64
	// Bytes is the memory of the entries, Limit its bound, and Results the memory of sessions' results and wills.
	Bytes, Limit, Results uint64
	Watches               uint64
}

// Member describes one node of the configuration.
type Member struct {
	Node   session.Node
	Voter  bool
	Leader bool
	// The addresses come from the settings of the answering node, otherwise from Raft's configuration. Raft's
	// configuration has only RaftAddress for a founder, and for a member that was added because it was among the
	// leader's peers.
	ClientAddress string
	RaftAddress   string
	PeerAddress   string
	// Observer says that the member must not get a vote, Leaving that it is being removed.
	Observer, Leaving bool
}

// clusterServer serves ClusterService.
type clusterServer struct {
	holdfastv1.UnsafeClusterServiceServer
	memberActs
	cluster Cluster
	// node serves streams, and snapshots freezes their state; nil: there are none.
	node      *sessionServer
	snapshots Snapshots
	// drains is the Config's Drains.
	drains Drains
}

// GetStatus shows this node.
func (c *clusterServer) GetStatus(ctx context.Context,
	_ *holdfastv1.GetStatusRequest,
) (*holdfastv1.GetStatusResponse, error) {
	s, err := c.cluster.Status(ctx)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.GetStatusResponse{
		Id:               uint32(s.Node),
		ClusterId:        s.ClusterID,
		Role:             roleProto(s.Role),
		Term:             s.Term,
		Leader:           uint32(s.Leader),
		LeaderAddress:    s.LeaderAddress,
		CommitIndex:      s.CommitIndex,
		AppliedIndex:     s.AppliedIndex,
		Cluster:          c.node.service.State().Cluster,
		SessionsGlobal:   s.SessionsGlobal,
		SessionsLocal:    s.SessionsLocal,
		SessionsAttached: s.SessionsAttached,
		Ready:            s.Ready,
		NotReadyBecause:  s.NotReadyBecause,
		Warning:          s.Warning,
		StateDigest:      s.StateDigest,
		Version:          s.Version,
		Mode:             wire.ModeProto(s.Mode),
		MaxSessions:      s.MaxSessions,
		StateBytes:       s.StateBytes,
		MaxStateBytes:    s.MaxStateBytes,
		FeatureLevel:     s.Tree.FeatureLevel,
		TreeEntries:      s.Tree.Entries,
		TreeEphemerals:   s.Tree.Ephemerals,
		TreeBytes:        s.Tree.Bytes,
		Watches:          s.Tree.Watches,

		Drain:    drainProto(s.Drain),
		Freezing: wire.FreezingProto(s.Freeze, s.Frozen),
		Turnover: turnoverProto(s.Turnover),
	}, nil
}

func turnoverProto(t session.Turnover) *holdfastv1.Turnover {
	return &holdfastv1.Turnover{
		Opens: t.Opens, Moves: t.Moves, Closes: t.Closes, Expiries: t.Expiries, Kills: t.Kills, TreeWrites: t.TreeWrites,
	}
}

// ListMembers shows the members of the newest configuration that this node knows. With FromLeader, a good round
// confirms them after they were read (J5 the leader's list).
func (c *clusterServer) ListMembers(ctx context.Context,
	req *holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	if req.GetFromLeader() && c.members == nil {
		return c.refuse.ListMembers(ctx, req)
	}
	members := c.cluster.Members()
	if req.GetFromLeader() {
		if err := c.members.Confirm(ctx); err != nil {
			return nil, err
		}
	}
	answer := &holdfastv1.ListMembersResponse{Members: make([]*holdfastv1.Member, len(members))}
	for i, m := range members {
		answer.Members[i] = &holdfastv1.Member{
			Id:            uint32(m.Node),
			Voter:         m.Voter,
			Leader:        m.Leader,
			ClientAddress: m.ClientAddress,
			RaftAddress:   m.RaftAddress,
			PeerAddress:   m.PeerAddress,
			Observer:      m.Observer,
			Leaving:       m.Leaving,
		}
	}
	return answer, nil
}

func roleProto(r Role) holdfastv1.Role {
	switch r {
	case RoleLeader:
		return holdfastv1.Role_ROLE_LEADER
	case RoleFollower:
		return holdfastv1.Role_ROLE_FOLLOWER
	case RoleObserver:
		return holdfastv1.Role_ROLE_OBSERVER
	case RoleCandidate:
		return holdfastv1.Role_ROLE_CANDIDATE
	default:
		return holdfastv1.Role_ROLE_UNSPECIFIED
	}
}
