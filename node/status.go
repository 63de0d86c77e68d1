package node

import (
	"cmp"
	"context"
	"encoding/hex"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/transport"
)

// Status describes this node, now.
func (n *Node) Status(context.Context) (transport.NodeStatus, error) {
	r := n.consensus.raft
	index, digest := n.state.Digest()
	served := n.server.Stats()
	s := transport.NodeStatus{
		Node:             n.cfg.Node,
		ClusterID:        n.cfg.ClusterID,
		Role:             n.role(),
		Term:             r.CurrentTerm(),
		CommitIndex:      r.CommitIndex(),
		AppliedIndex:     index,
		SessionsGlobal:   uint64(n.state.Sessions()),
		SessionsLocal:    uint64(served.Local),
		SessionsAttached: uint64(served.Attached),
		StateDigest:      hex.EncodeToString(digest[:]),
		Version:          n.options.Version,
		Mode:             n.server.State().Mode,
	}
	if _, id := r.LeaderWithID(); id != "" {
		if leads, ok := n.peer(id); ok {
			s.Leader, s.LeaderAddress = leads.Node, leads.Client
		}
	}
	if err := n.serves(); err != nil {
		s.NotReadyBecause = err.Error()
	} else {
		s.Ready = true
	}
	return s, nil
}

func (n *Node) role() transport.Role {
	switch n.consensus.raft.State() {
	case raft.Leader:
		return transport.RoleLeader
	case raft.Candidate:
		return transport.RoleCandidate
	case raft.Follower, raft.Shutdown:
	}
	for _, m := range n.view.Members() {
		if m.Node == n.cfg.Node && !m.Voter {
			return transport.RoleObserver
		}
	}
	return transport.RoleFollower
}

// Members are those of the newest configuration this node knows.
func (n *Node) Members() []transport.Member {
	_, leads := n.consensus.raft.LeaderWithID()
	var members []transport.Member
	for _, s := range n.servers() {
		node, _, err := nodeOfServer(s.ID)
		if err != nil {
			continue // not a configuration of ours
		}
		p := n.peerOf(node)
		members = append(members, transport.Member{
			Node:          node,
			Voter:         s.Suffrage == raft.Voter,
			Leader:        s.ID == leads,
			ClientAddress: p.Client,
			RaftAddress:   cmp.Or(p.Raft, raftAddress(s)),
			PeerAddress:   p.Peer,
		})
	}
	return members
}

// isMember reports whether a node may follow.
func (n *Node) isMember(node session.Node) bool {
	for _, m := range n.view.Members() {
		if m.Node == node {
			return true
		}
	}
	return false
}
