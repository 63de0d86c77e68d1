package node

import (
	"cmp"
	"context"
	"encoding/hex"
	"strings"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/transport/clientport"
)

// Status describes this node, now.
func (n *Node) Status(context.Context) (clientport.NodeStatus, error) {
	r := n.consensus.raft
	index, digest := n.state.Digest()
	served := n.server.Stats()
	used := n.state.Usage()
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
	s.Warning = n.warning()
	return s, nil
}

// warning is what a person should see to though the node serves; empty: nothing.
func (n *Node) warning() string {
	var all []string
	if err := n.replica.warning(); err != nil {
		all = append(all, err.Error())
	}
	if differ := n.admission.agreement.drift(); len(differ) > 0 {
		all = append(all, "settings differ: "+strings.Join(differ, "; "))
	}
	return strings.Join(all, "; ")
}

func (n *Node) role() clientport.Role {
	switch n.consensus.raft.State() {
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

// Members are those of the newest configuration this node knows.
func (n *Node) Members() []clientport.Member {
	_, leads := n.consensus.raft.LeaderWithID()
	var members []clientport.Member
	for _, s := range n.servers() {
		node, _, err := nodeOfServer(s.ID)
		if err != nil {
			continue // not a configuration of ours
		}
		p := n.peerOf(node)
		members = append(members, clientport.Member{
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

// greets reports whether a node may greet this one on Raft's port: it is among the peers, or a member. A node on a new
// directory is neither by its directory, but is by its number. A node that this one's configuration does not name yet
// may be a leader that it lags behind; peers name it then.
func (n *Node) greets(node session.Node) bool {
	if node == n.cfg.Node {
		return false
	}
	_, _, member := n.directoryOf(node)
	return member || n.peerOf(node).Node == node
}

// mayFollow reports whether a node may follow over the peer port. This node's own relay does not come over it: a stream
// that names this node is a stranger's, which would end the own relay's, and with an answer of a newer term the
// tracker.
func (n *Node) mayFollow(node session.Node) bool {
	if node == n.cfg.Node {
		return false
	}
	for _, m := range n.view.Members() {
		if m.Node == node {
			return true
		}
	}
	return false
}
