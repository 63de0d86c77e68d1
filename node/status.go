package node

import (
	"cmp"
	"context"
	"encoding/hex"

	"github.com/hashicorp/raft"

	"holdfast/node/members"
	"holdfast/transport/clientport"
	"holdfast/transport/raftnet"
)

// Status describes this node as it is now.
func (n *Node) Status(context.Context) (clientport.NodeStatus, error) {
	r := n.consensus.Raft
	index, digest := n.view.Digest()
	served := n.server.Stats()
	used := n.view.Usage()
	s := clientport.NodeStatus{
		Node:             n.cfg.Node,
		ClusterID:        n.cfg.ClusterID,
		Role:             n.role(),
		Term:             r.CurrentTerm(),
		CommitIndex:      r.CommitIndex(),
		AppliedIndex:     index,
		SessionsGlobal:   used.Sessions,
		SessionsLocal:    uint64(served.Local),
		SessionsAttached: uint64(served.Attached),
		StateDigest:      hex.EncodeToString(digest[:]),
		Version:          n.options.Version,
		Mode:             n.server.State().Mode,
		MaxSessions:      used.Capacity.MaxSessions,
		StateBytes:       used.Bytes,
		MaxStateBytes:    used.Capacity.MaxBytes,
		Tree:             n.treeStatus(),
		Drain:            n.drain.Status(),
		Turnover:         n.view.turnover.counts(),
	}
	if _, id := r.LeaderWithID(); id != "" {
		if leads, ok := n.membership.PeerOfServer(id); ok {
			s.Leader, s.LeaderAddress = leads.Node, leads.Client
		}
	}
	if err := n.health.Check(); err != nil {
		s.NotReadyBecause = err.Error()
	} else {
		s.Ready = true
	}
	s.Warning = n.health.Warning()
	s.Freeze, s.Frozen = n.view.freezes.Present()
	return s, nil
}

// treeStatus describes the tree as this node has applied it.
func (n *Node) treeStatus() clientport.TreeStatus {
	now := n.view.Tree()
	ephemerals, bytes := now.Root.Sizes()
	return clientport.TreeStatus{
		FeatureLevel: now.Level, Entries: uint64(now.Root.Len()), Ephemerals: uint64(ephemerals),
		Bytes: uint64(bytes), Limit: uint64(now.Limits.Bytes), Results: now.Writers.Held(), //nolint:gosec // positive
		Watches: uint64(n.server.Stats().Watches),
	}
}

func (n *Node) role() clientport.Role {
	switch n.consensus.Raft.State() {
	case raft.Leader:
		return clientport.RoleLeader
	case raft.Candidate:
		return clientport.RoleCandidate
	case raft.Follower, raft.Shutdown:
	}
	for _, m := range n.view.Members() {
		if m.Node == n.cfg.Node && !m.Voter {
			return clientport.RoleObserver
		}
	}
	return clientport.RoleFollower
}

// Members returns the members of the newest configuration that this node knows.
func (n *Node) Members() []clientport.Member {
	_, leads := n.consensus.Raft.LeaderWithID()
	var all []clientport.Member
	for _, s := range n.membership.Servers() {
		node, _, err := raftnet.ParseServerID(s.ID)
		if err != nil {
			continue // not a configuration of Holdfast's
		}
		p := n.membership.PeerOf(node)
		all = append(all, clientport.Member{
			Node:          node,
			Voter:         s.Suffrage == raft.Voter,
			Leader:        s.ID == leads,
			ClientAddress: p.Client,
			RaftAddress:   cmp.Or(p.Raft, members.RaftAddress(s)),
			PeerAddress:   p.Peer,
			Observer:      members.DesiredOf(s) == members.DesiredObserver,
			Leaving:       members.DesiredOf(s) == members.DesiredRemoved,
		})
	}
	return all
}
