package members

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

// Membership knows the nodes of the cluster from two sources: this node's peers, which an operator writes, and the
// members of Raft's newest configuration. Only the configuration says who is a member (J1 membership in the log). The
// peers come first for addresses, because an operator who moves a node changes the peers. A node without a
// configuration also uses the members that other nodes have reported. Safe for concurrent use.
type Membership struct {
	self session.Node
	// directory is the data directory of this node.
	directory raftnet.Directory
	peers     []config.Peer
	// usedUp reports whether the number of a node is used up: the node was removed for good (J3 removal), or is about
	// to be. nil: no number is.
	usedUp func(session.Node) bool
	// joining is the node that is being added, which may greet this node; 0: there is none.
	joining atomic.Uint32
	// reports are the members that each other node has named in its newest answer.
	reports atomic.Pointer[map[session.Node]membersReport]
	// raft is nil until Raft runs. Raft's port calls Membership before that.
	raft atomic.Pointer[raft.Raft]
	// member says that Raft's configuration named this node on its directory at the last Refresh.
	member atomic.Bool
}

// membersReport are the members that another node has named at a moment.
type membersReport struct {
	at      time.Time
	members []config.Peer
}

// reportLifetime is how long a node uses a report of the members. A node without a leader gets new reports in each
// heartbeat interval.
const reportLifetime = time.Minute

// NewMembership returns the membership as this node knows it before Raft runs: its peers.
func NewMembership(self session.Node, directory raftnet.Directory, peers []config.Peer) *Membership {
	return &Membership{self: self, directory: directory, peers: peers}
}

// SetUsedUp sets the function that reports whether the number of a node is used up. It must be called
// before the Raft port opens.
func (m *Membership) SetUsedUp(usedUp func(session.Node) bool) { m.usedUp = usedUp }

// SetRaft is called once Raft runs.
func (m *Membership) SetRaft(r *raft.Raft) { m.raft.Store(r) }

// Raft returns nil until Raft runs.
func (m *Membership) Raft() *raft.Raft { return m.raft.Load() }

// Self returns the number of this node.
func (m *Membership) Self() session.Node { return m.self }

// OwnDirectory returns the data directory of this node.
func (m *Membership) OwnDirectory() raftnet.Directory { return m.directory }

// Servers returns the members of Raft's newest configuration; none while there is no configuration.
func (m *Membership) Servers() []raft.Server {
	running := m.raft.Load()
	if running == nil {
		return nil
	}
	future := running.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// Member returns the entry and the directory of a node in Raft's newest configuration; false when the node is no
// member.
func (m *Membership) Member(node session.Node) (raft.Server, raftnet.Directory, bool) {
	s, found := Find(m.Servers(), node)
	if !found {
		return raft.Server{}, 0, false
	}
	_, d, _ := raftnet.ParseServerID(s.ID) // Find has parsed it
	return s, d, true
}

// keepsDirectory reports whether a node is a member on another directory than d, and the leader must not replace that
// directory by itself: an operator has added the node, or wants it to be an observer or to leave.
func (m *Membership) keepsDirectory(node session.Node, d raftnet.Directory) bool {
	s, directory, member := m.Member(node)
	_, marks := raftnet.Marks(s.Address)
	return member && directory != d && len(marks) > 0
}

// DirectoryOf returns the directory of a member, 0 when the node is no member.
func (m *Membership) DirectoryOf(node session.Node) raftnet.Directory {
	_, d, _ := m.Member(node)
	return d
}

// Refresh notes whether this node is a member, for [Membership.IsMember].
func (m *Membership) Refresh() { m.member.Store(m.DirectoryOf(m.self) == m.directory) }

// IsMember reports whether this node was a member at the last Refresh. It takes no lock, and does not wait for Raft.
func (m *Membership) IsMember() bool { return m.member.Load() }

// Desired returns the desired state of this node; false when it is no member on its directory.
func (m *Membership) Desired() (Desired, bool) {
	s, d, ok := m.Member(m.self)
	return DesiredOf(s), ok && d == m.directory
}

// IsObserver reports whether this node is a member without a vote that is not to get one.
func (m *Membership) IsObserver() bool {
	s, d, ok := m.Member(m.self)
	return ok && d == m.directory && s.Suffrage != raft.Voter && DesiredOf(s) != DesiredVoter
}

// IsVoter reports whether this node is a member with a vote, on its directory.
func (m *Membership) IsVoter() bool {
	s, d, ok := m.Member(m.self)
	return ok && d == m.directory && s.Suffrage == raft.Voter
}

// Term returns this node's Raft term, 0 before Raft runs.
func (m *Membership) Term() uint64 {
	running := m.raft.Load()
	if running == nil {
		return 0
	}
	return running.CurrentTerm()
}

// Leads reports whether this node leads a term now. Raft sets its term before it becomes leader, and gives up the
// leadership before it enters a newer term.
func (m *Membership) Leads(term uint64) bool {
	running := m.raft.Load()
	return running != nil && running.State() == raft.Leader && running.CurrentTerm() == term
}

// leads reports whether Raft takes a node for the leader.
func (m *Membership) leads(node session.Node) bool {
	running := m.raft.Load()
	if running == nil {
		return false
	}
	_, id := running.LeaderWithID()
	leads, ok := m.PeerOfServer(id)
	return ok && leads.Node == node
}

// notLeader returns a [session.NotLeaderError] that names the leader, if this node knows it.
func (m *Membership) notLeader() error {
	e := &session.NotLeaderError{}
	if running := m.raft.Load(); running != nil {
		if _, id := running.LeaderWithID(); id != "" {
			if leads, ok := m.PeerOfServer(id); ok {
				e.Leader, e.Address = leads.Node, leads.Client
			}
		}
	}
	return e
}

// WasRemoved reports whether a node was removed from the cluster for good. The removed node itself may never learn it
// from its log, because Raft sends nothing to a node that is no member. The other nodes tell it
// ([Admission.WasRemoved]).
func (m *Membership) WasRemoved(node session.Node) bool {
	if m.usedUp == nil || !m.usedUp(node) {
		return false
	}
	_, _, member := m.Member(node)
	return !member
}

// known returns each node that this node knows once: the peers that were not removed, the members, and without a
// configuration the members that other nodes have reported.
func (m *Membership) known() []config.Peer {
	servers := m.Servers()
	var all []config.Peer
	for _, p := range m.peers {
		if _, member := Find(servers, p.Node); member || m.usedUp == nil || !m.usedUp(p.Node) {
			all = append(all, p)
		}
	}
	add := func(p config.Peer) {
		if !slices.ContainsFunc(all, func(o config.Peer) bool { return o.Node == p.Node }) {
			all = append(all, p)
		}
	}
	for _, s := range servers {
		if p, ok := addressesOf(s); ok {
			add(p)
		}
	}
	if len(servers) == 0 {
		for _, p := range m.reported() {
			add(p)
		}
	}
	return all
}

// Members returns the members, with the addresses that this node knows for them; the peers while there is no
// configuration.
func (m *Membership) Members() []config.Peer {
	servers := m.Servers()
	if len(servers) == 0 {
		return slices.Clone(m.peers)
	}
	return slices.DeleteFunc(m.known(), func(p config.Peer) bool {
		_, member := Find(servers, p.Node)
		return !member
	})
}

// noteReport keeps the members that another node reports. A report decides nothing against a configuration, except that
// the reported nodes may greet this node. Each reporter may be out of date, so reports of different nodes do not
// replace each other. Calls must not overlap.
func (m *Membership) noteReport(from session.Node, members []config.Peer) {
	if len(members) == 0 || len(members) > int(session.MaxNode) {
		return
	}
	reports := map[session.Node]membersReport{}
	if before := m.reports.Load(); before != nil {
		maps.Copy(reports, *before)
	}
	reports[from] = membersReport{time.Now(), members}
	m.reports.Store(&reports)
}

// reported returns the members that other nodes have reported recently, the newest report first. A node may occur
// several times.
func (m *Membership) reported() (all []config.Peer) {
	reports := m.reports.Load()
	if reports == nil {
		return nil
	}
	newestFirst := slices.SortedFunc(maps.Values(*reports), func(a, b membersReport) int { return b.at.Compare(a.at) })
	for _, r := range newestFirst {
		if time.Since(r.at) < reportLifetime {
			all = append(all, r.members...)
		}
	}
	return all
}

// forgetReports drops the reports. Before its admission a node cannot know whether the reporters belong to its cluster.
func (m *Membership) forgetReports() { m.reports.Store(nil) }

// PeerOf returns the addresses of a node, the zero Peer for a node that this node does not know.
func (m *Membership) PeerOf(node session.Node) config.Peer {
	for _, p := range m.known() {
		if p.Node == node {
			return p
		}
	}
	return config.Peer{}
}

// PeerOfServer returns the addresses of the node behind one of Raft's server ids.
func (m *Membership) PeerOfServer(id raft.ServerID) (config.Peer, bool) {
	node, _, err := raftnet.ParseServerID(id)
	if err != nil {
		return config.Peer{}, false
	}
	p := m.PeerOf(node)
	return p, p.Node == node
}

// others returns the known nodes without this node.
func (m *Membership) others() []config.Peer {
	return slices.DeleteFunc(m.known(), func(p config.Peer) bool { return p.Node == m.self })
}

// otherNodes returns the numbers of the other known nodes.
func (m *Membership) otherNodes() []session.Node {
	var nodes []session.Node
	for _, p := range m.others() {
		nodes = append(nodes, p.Node)
	}
	return nodes
}

// OtherClients returns the addresses at which clients reach the other members.
func (m *Membership) OtherClients() []string {
	var addresses []string
	for _, p := range m.Members() {
		if p.Node != m.self && p.Client != "" {
			addresses = append(addresses, p.Client)
		}
	}
	return addresses
}

// RaftAddressOf returns the address that the peers name for the member on a directory, empty when they name none.
// Raft's configuration keeps the address at which the member was added; an operator who moves a node changes the peers.
func (m *Membership) RaftAddressOf(d raftnet.Directory) string {
	for _, s := range m.Servers() {
		if node, directory, err := raftnet.ParseServerID(s.ID); err == nil && directory == d {
			return m.PeerOf(node).Raft
		}
	}
	return ""
}

// NodeAt returns the node at an address for nodes, by the peers or else by Raft's newest configuration; 0 when neither
// knows the address.
func (m *Membership) NodeAt(address string) session.Node {
	for _, p := range m.known() {
		if address == p.Raft || address == p.Peer {
			return p.Node
		}
	}
	for _, s := range m.Servers() {
		if p, ok := addressesOf(s); ok && (address == p.Raft || address == p.Peer) {
			return p.Node
		}
	}
	return 0
}

// MayGreet reports whether a node may greet this node on Raft's port: this node knows it, or is adding it, or has to
// tell it that it was removed. A node on a new directory may greet too. A node that another node reports as a member
// was added while this node was away, and may be the leader by now: without its greeting this node would never learn of
// the newer configuration (J1).
func (m *Membership) MayGreet(node session.Node) bool {
	return node != m.self &&
		(m.knows(node) || m.WasRemoved(node) || m.isReported(node) || uint32(node) == m.joining.Load())
}

// isReported reports whether another node has recently reported a node as a member.
func (m *Membership) isReported(node session.Node) bool {
	return slices.ContainsFunc(m.reported(), func(p config.Peer) bool { return p.Node == node })
}

// knows reports whether this node knows another one.
func (m *Membership) knows(node session.Node) bool { return m.PeerOf(node).Node == node && node != 0 }

// FirstConfiguration returns the configuration that the log of every founder begins with, nil for nil founders. The
// founders have agreed on their directories, so that the configuration is the same on every founder.
func (m *Membership) FirstConfiguration(founders raftnet.Directories) (*raft.Configuration, error) {
	if founders == nil {
		return nil, nil //nolint:nilnil // the log begins with nothing
	}
	var c raft.Configuration
	for _, node := range slices.Sorted(maps.Keys(founders)) {
		at := slices.IndexFunc(m.peers, func(p config.Peer) bool { return p.Node == node })
		if at < 0 {
			return nil, fmt.Errorf("node %d founded the cluster with this node and is not among its peers: add it",
				node)
		}
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter,
			ID:       raftnet.ServerID(node, founders[node]),
			Address:  raftnet.At(m.peers[at].Raft, founders[node]),
		})
	}
	return &c, nil
}
