package node

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// roster knows the nodes of the cluster from two sources: this node's peers, which an operator writes, and the members
// of Raft's newest configuration, which the log decides. Safe for concurrent use.
type roster struct {
	self session.Node
	// mine is the data directory of this node.
	mine  raftnet.Directory
	peers []config.Peer
	// raft is set once Raft runs. Calls on Raft's port look at it earlier.
	raft atomic.Pointer[raft.Raft]
	// member says that Raft's newest configuration named this node on its directory at the last look.
	member atomic.Bool
}

// servers returns the members of Raft's newest configuration, none while there is none.
func (r *roster) servers() []raft.Server {
	running := r.raft.Load()
	if running == nil {
		return nil
	}
	future := running.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// directoryOf returns the member that a node is in Raft's newest configuration, and its directory; false when the node
// is no member.
func (r *roster) directoryOf(node session.Node) (raft.Server, raftnet.Directory, bool) {
	for _, s := range r.servers() {
		if of, d, err := nodeOfServer(s.ID); err == nil && of == node {
			return s, d, true
		}
	}
	return raft.Server{}, 0, false
}

// named returns the directory of [roster.directoryOf], 0 when the node is no member.
func (r *roster) named(node session.Node) raftnet.Directory {
	_, d, _ := r.directoryOf(node)
	return d
}

// look notes whether this node is a member, for readers that must not wait for Raft.
func (r *roster) look() { r.member.Store(r.named(r.self) == r.mine) }

// votes reports whether this node is a member with a vote, on its directory.
func (r *roster) votes() bool {
	s, d, ok := r.directoryOf(r.self)
	return ok && d == r.mine && s.Suffrage == raft.Voter
}

// term returns this node's Raft term, 0 before Raft runs.
func (r *roster) term() uint64 {
	running := r.raft.Load()
	if running == nil {
		return 0
	}
	return running.CurrentTerm()
}

// leads reports whether this node leads a term now. Raft sets its term before it takes up the lead, and gives up the
// lead before it takes a newer term.
func (r *roster) leads(term uint64) bool {
	running := r.raft.Load()
	return running != nil && running.State() == raft.Leader && running.CurrentTerm() == term
}

// peerOf returns the zero Peer for a node that is not among the peers.
func (r *roster) peerOf(node session.Node) config.Peer {
	for _, p := range r.peers {
		if p.Node == node {
			return p
		}
	}
	return config.Peer{}
}

// peerBehind returns the peer that one of Raft's servers is.
func (r *roster) peerBehind(id raft.ServerID) (config.Peer, bool) {
	node, _, err := nodeOfServer(id)
	if err != nil {
		return config.Peer{}, false
	}
	p := r.peerOf(node)
	return p, p.Node == node
}

// others returns the peers without this node.
func (r *roster) others() []config.Peer {
	return slices.DeleteFunc(slices.Clone(r.peers), func(p config.Peer) bool { return p.Node == r.self })
}

// otherNodes returns the numbers of the other peers.
func (r *roster) otherNodes() []session.Node {
	var nodes []session.Node
	for _, p := range r.others() {
		nodes = append(nodes, p.Node)
	}
	return nodes
}

// otherClients returns the addresses at which clients reach the other peers.
func (r *roster) otherClients() []string {
	var addresses []string
	for _, p := range r.others() {
		addresses = append(addresses, p.Client)
	}
	return addresses
}

// raftAddressOf returns the address that the peers name for the member on a directory, empty when they name none.
// Raft's configuration keeps the address at which a member was taken in; an operator who moves a node changes peers.
func (r *roster) raftAddressOf(d raftnet.Directory) string {
	for _, s := range r.servers() {
		if node, directory, err := nodeOfServer(s.ID); err == nil && directory == d {
			return r.peerOf(node).Raft
		}
	}
	return ""
}

// nodeAt returns the node that has an address for nodes, by the peers or else by Raft's newest configuration; 0 when
// neither knows the address.
func (r *roster) nodeAt(address string) session.Node {
	for _, p := range r.peers {
		if address == p.Raft || address == p.Peer {
			return p.Node
		}
	}
	for _, s := range r.servers() {
		host, _, err := raftnet.Split(s.Address)
		if node, _, other := nodeOfServer(s.ID); err == nil && other == nil && host == address {
			return node
		}
	}
	return 0
}

// greets reports whether a node may greet this one on Raft's port: the node is among the peers, or a member. The
// directory does not matter, because a node on a new directory is neither. A member that is not among the peers yet may
// be a leader that this node lags behind.
func (r *roster) greets(node session.Node) bool {
	if node == r.self {
		return false
	}
	_, _, member := r.directoryOf(node)
	return member || r.peerOf(node).Node == node
}

// first returns the configuration that the log of every founder begins with. It is the same on every founder, whatever
// the founder's peers say, because the founders agreed on it. It is nil for nil founders.
func (r *roster) first(founders directories) (*raft.Configuration, error) {
	if founders == nil {
		return nil, nil //nolint:nilnil // the log begins with nothing
	}
	var c raft.Configuration
	for _, node := range slices.Sorted(maps.Keys(founders)) {
		p := r.peerOf(node)
		if p.Node != node {
			return nil, fmt.Errorf("node %d founded the cluster with this node and is not among its peers: add it",
				node)
		}
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter,
			ID:       serverID(node, founders[node]),
			Address:  raftnet.At(p.Raft, founders[node]),
		})
	}
	return &c, nil
}
