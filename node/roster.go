package node

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// roster knows the nodes of the cluster from two sources: this node's peers, which an operator writes, and the
// members of Raft's newest configuration, which the log decides. Who is a member is the log's word alone (J1). Where
// a member is, the peers say first: an operator who moves a node changes them. A node without a configuration also
// believes the members that others have named to it. Safe for concurrent use.
type roster struct {
	self session.Node
	// mine is the data directory of this node.
	mine  raftnet.Directory
	peers []config.Peer
	// gone reports whether a node was removed for good (J3). It is set before Raft runs; nil: nothing is known.
	gone func(session.Node) bool
	// visited is the node that is being added, which may greet this one; 0 while there is none.
	visited atomic.Uint32
	// told are the members that each other node has named when this one met it last.
	told atomic.Pointer[map[session.Node]toldMembers]
	// raft is set once Raft runs. Calls on Raft's port look at it earlier.
	raft atomic.Pointer[raft.Raft]
	// member says that Raft's newest configuration named this node on its directory at the last look.
	member atomic.Bool
}

// toldMembers are the members that another node has named at a moment.
type toldMembers struct {
	at  time.Time
	all []config.Peer
}

// toldTime is for how long a node believes what another one has told of the members. Whoever has no leader hears it
// anew in each interval.
const toldTime = time.Minute

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

// keeps reports whether a node is a member on another directory than d, and one that the leader does not replace by
// itself: an operator has added it, or wants it to have no vote.
func (r *roster) keeps(node session.Node, d raftnet.Directory) bool {
	s, directory, member := r.directoryOf(node)
	_, marks := raftnet.Marks(s.Address)
	return member && directory != d && len(marks) > 0
}

// named returns the directory of [roster.directoryOf], 0 when the node is no member.
func (r *roster) named(node session.Node) raftnet.Directory {
	_, d, _ := r.directoryOf(node)
	return d
}

// look notes whether this node is a member, for readers that must not wait for Raft.
func (r *roster) look() { r.member.Store(r.named(r.self) == r.mine) }

// wish returns what is wanted of this node, false when it is no member on its directory.
func (r *roster) wish() (wish, bool) {
	s, d, ok := r.directoryOf(r.self)
	return wishOf(s), ok && d == r.mine
}

// observes reports whether this node is a member that has no vote, and is to have none.
func (r *roster) observes() bool {
	s, d, ok := r.directoryOf(r.self)
	return ok && d == r.mine && s.Suffrage != raft.Voter && wishOf(s) != wishVote
}

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

// was reports whether a node was a member, and was removed for good. The removed node itself never knows: Raft sends it
// nothing once it is no member, so that its own log may name it for ever. The others tell it ([admission.removed]).
func (r *roster) was(node session.Node) bool {
	if r.gone == nil || !r.gone(node) {
		return false
	}
	_, _, member := r.directoryOf(node)
	return !member
}

// known returns all nodes that this one knows, each once: its peers but for those that were removed, the members, and
// without a configuration the members that others have named.
func (r *roster) known() []config.Peer {
	servers := r.servers()
	var all []config.Peer
	for _, p := range r.peers {
		if _, member := find(servers, p.Node); member || r.gone == nil || !r.gone(p.Node) {
			all = append(all, p)
		}
	}
	add := func(p config.Peer) {
		if !slices.ContainsFunc(all, func(o config.Peer) bool { return o.Node == p.Node }) {
			all = append(all, p)
		}
	}
	for _, s := range servers {
		if p, ok := placeOf(s); ok {
			add(p)
		}
	}
	if len(servers) == 0 {
		for _, p := range r.heard() {
			add(p)
		}
	}
	return all
}

// members returns the members, with the addresses that this node knows for them; the peers while there is no
// configuration.
func (r *roster) members() []config.Peer {
	servers := r.servers()
	if len(servers) == 0 {
		return slices.Clone(r.peers)
	}
	return slices.DeleteFunc(r.known(), func(p config.Peer) bool {
		_, member := find(servers, p.Node)
		return !member
	})
}

// hear takes the members that another node names. What others say does not count against a configuration, but for who
// may greet this node. Each of them may be behind, so that none counts against the others. Calls must not overlap.
func (r *roster) hear(from session.Node, members []config.Peer) {
	if len(members) == 0 || len(members) > int(session.MaxNode) {
		return
	}
	told := map[session.Node]toldMembers{}
	if before := r.told.Load(); before != nil {
		maps.Copy(told, *before)
	}
	told[from] = toldMembers{time.Now(), members}
	r.told.Store(&told)
}

// heard returns the members that others have named of late, some of them several times, the newest word first.
func (r *roster) heard() (all []config.Peer) {
	told := r.told.Load()
	if told == nil {
		return nil
	}
	words := slices.SortedFunc(maps.Values(*told), func(a, b toldMembers) int { return b.at.Compare(a.at) })
	for _, w := range words {
		if time.Since(w.at) < toldTime {
			all = append(all, w.all...)
		}
	}
	return all
}

// forget drops the members that were named by others, of which nobody knew whether they are of this node's cluster.
func (r *roster) forget() { r.told.Store(nil) }

// peerOf returns the addresses of a node, the zero Peer for a node that this one does not know.
func (r *roster) peerOf(node session.Node) config.Peer {
	for _, p := range r.known() {
		if p.Node == node {
			return p
		}
	}
	return config.Peer{}
}

// peerBehind returns the node that one of Raft's servers is.
func (r *roster) peerBehind(id raft.ServerID) (config.Peer, bool) {
	node, _, err := nodeOfServer(id)
	if err != nil {
		return config.Peer{}, false
	}
	p := r.peerOf(node)
	return p, p.Node == node
}

// others returns the nodes of known without this one.
func (r *roster) others() []config.Peer {
	return slices.DeleteFunc(r.known(), func(p config.Peer) bool { return p.Node == r.self })
}

// otherNodes returns the numbers of the other nodes.
func (r *roster) otherNodes() []session.Node {
	var nodes []session.Node
	for _, p := range r.others() {
		nodes = append(nodes, p.Node)
	}
	return nodes
}

// otherClients returns the addresses at which clients reach the other members.
func (r *roster) otherClients() []string {
	var addresses []string
	for _, p := range r.members() {
		if p.Node != r.self && p.Client != "" {
			addresses = append(addresses, p.Client)
		}
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
	for _, p := range r.known() {
		if address == p.Raft || address == p.Peer {
			return p.Node
		}
	}
	for _, s := range r.servers() {
		if p, ok := placeOf(s); ok && (address == p.Raft || address == p.Peer) {
			return p.Node
		}
	}
	return 0
}

// greets reports whether a node may greet this one on Raft's port: this node knows it, or is adding it, or it was
// removed and is to be told so. The directory does not matter, because a node on a new directory is neither. A node
// that another one names as a member was added while this one was away, and may be the leader by now: this node would
// never hear of its own members otherwise (J1).
func (r *roster) greets(node session.Node) bool {
	return node != r.self &&
		(r.knows(node) || r.was(node) || r.vouchedFor(node) || uint32(node) == r.visited.Load())
}

// vouchedFor reports whether a node that this one has met of late names another one as a member.
func (r *roster) vouchedFor(node session.Node) bool {
	return slices.ContainsFunc(r.heard(), func(p config.Peer) bool { return p.Node == node })
}

// knows reports whether this node knows another one.
func (r *roster) knows(node session.Node) bool { return r.peerOf(node).Node == node && node != 0 }

// peer returns the peer that a node is, false when it is none.
func (r *roster) peer(node session.Node) (config.Peer, bool) {
	for _, p := range r.peers {
		if p.Node == node {
			return p, true
		}
	}
	return config.Peer{}, false
}

// first returns the configuration that the log of every founder begins with. It is the same on every founder, whatever
// the founder's peers say, because the founders agreed on it. It is nil for nil founders.
func (r *roster) first(founders directories) (*raft.Configuration, error) {
	if founders == nil {
		return nil, nil //nolint:nilnil // the log begins with nothing
	}
	var c raft.Configuration
	for _, node := range slices.Sorted(maps.Keys(founders)) {
		p, ok := r.peer(node)
		if !ok {
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
