package members

import (
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

const (
	// goneChecks is the number of checks in a row that must find a node gone before the leader gives its place to
	// another process, or removes it without waiting for its clients: two processes that were given one number by
	// mistake must not replace each other.
	goneChecks = 10
	// recentIntervals is for how many heartbeat intervals a request to be added counts.
	recentIntervals = 4
)

// planner decides which change of the configuration a leader makes next, without I/O: from facts and the answers of
// nodes it derives a step. A planner remembers its checks of one term, and belongs to one goroutine.
type planner struct {
	interval, drainTimeout time.Duration
	// keepsVote receives a member that must keep its vote for now, and the reason.
	keepsVote func(session.Node, error)
	// absences counts, for each node, the checks that found the node gone and another process asking for its place.
	absences map[session.Node]int
	// target is, for each node, the entry that the node must have applied before it votes.
	target map[session.Node]uint64
	// leaving are the members that are to be removed.
	leaving map[session.Node]*leaving
}

// leaving is a member that is to be removed.
type leaving struct {
	// since is when this term began to wait for its clients.
	since time.Time
	// silent counts the checks in a row without an answer of the node.
	silent int
}

func newPlanner(interval, drainTimeout time.Duration, keepsVote func(session.Node, error)) *planner {
	return &planner{
		interval: interval, drainTimeout: drainTimeout, keepsVote: keepsVote, absences: map[session.Node]int{},
		target: map[session.Node]uint64{}, leaving: map[session.Node]*leaving{},
	}
}

// facts are what a leader knows when it decides.
type facts struct {
	now  time.Time
	self session.Node
	// servers are the members, known the addresses of all nodes.
	servers []raft.Server
	known   []config.Peer
	// requests are the recent requests of nodes to be added.
	requests map[session.Node]joinRequest
	// committed is the newest committed entry.
	committed uint64
	term      Term
	// usedUp reports whether the number of a node is used up.
	usedUp func(session.Node) bool
}

// answer is a node's answer to a request of the leader.
type answer struct {
	node      session.Node
	directory raftnet.Directory
	drained   bool
}

// answers has the answers of the nodes that have answered.
type answers map[session.Node]answer

// action is the kind of a step.
type action uint8

const (
	noAction action = iota
	// transferLeadership: this node leads, and is to lose its vote.
	transferLeadership
	// demote: the member becomes an observer.
	demote
	// useUpNumber: the number of the member is never given to a node again.
	useUpNumber
	// removeMember: the member is removed for good.
	removeMember
	// addMember: the node becomes a member without a vote.
	addMember
	// removeLost: the member is removed because its data directory is gone.
	removeLost
	// giveVote: the member has caught up, and becomes a voter.
	giveVote
)

// step is one change that the leader makes.
type step struct {
	action action
	node   session.Node
	// id and address are those of the member that the step changes or adds.
	id      raft.ServerID
	address raft.ServerAddress
	// request is the request that the step answers.
	request joinRequest
}

// memberProbes returns the members that the leader probes before memberStep: candidates for removal.
func (p *planner) memberProbes(f *facts) (probes []config.Peer) {
	for _, s := range f.servers {
		node, _, err := raftnet.ParseServerID(s.ID)
		if err != nil || DesiredOf(s) != DesiredRemoved || s.Suffrage == raft.Voter || p.isOverdue(f, node) {
			continue
		}
		probes = append(probes, peerIn(f.known, node))
	}
	return probes
}

// memberStep returns the next step for a member that is to lose its vote or to leave (J2 add, promote, demote, J3
// removal).
func (p *planner) memberStep(f *facts, got answers) step {
	for _, s := range f.servers {
		node, _, err := raftnet.ParseServerID(s.ID)
		if err != nil || DesiredOf(s) == DesiredVoter {
			continue
		}
		if next := p.stepOfMember(f, s, node, got); next != noAction {
			return step{action: next, node: node, id: s.ID}
		}
	}
	return step{}
}

func (p *planner) stepOfMember(f *facts, s raft.Server, node session.Node, got answers) action {
	switch {
	case s.Suffrage == raft.Voter:
		// A leader that cannot lose its vote yet leads on: the next leader may be such a member too, and transfer back.
		if err := checkQuorum(f.term.Peers(), append(losesVote(f.servers, 0), node), 0); err != nil {
			p.keepsVote(node, err)
			return noAction
		}
		if node == f.self {
			return transferLeadership
		}
		delete(p.target, node)
		return demote
	case DesiredOf(s) == DesiredObserver, !p.mayRemove(f, node, got):
		return noAction
	case !f.usedUp(node):
		return useUpNumber
	}
	return removeMember
}

// isOverdue reports whether a member that is to be removed has had its time to move its clients.
func (p *planner) isOverdue(f *facts, node session.Node) bool {
	if p.leaving[node] == nil {
		p.leaving[node] = &leaving{since: f.now}
	}
	return f.now.Sub(p.leaving[node].since) > p.drainTimeout+recentIntervals*p.interval
}

// mayRemove reports whether the leader need not wait for a member that is to be removed: the member has had its time,
// or is drained, or is dead.
func (p *planner) mayRemove(f *facts, node session.Node, got answers) bool {
	if p.isOverdue(f, node) {
		return true
	}
	l := p.leaving[node]
	a, answered := got[node]
	switch {
	case answered:
		l.silent = 0
		return a.drained
	case f.term.Follows(node):
		l.silent = 0
		return false
	}
	l.silent++
	return l.silent >= goneChecks
}

// requestProbes returns the nodes that the leader has to ask before requestStep. A stray process elsewhere that was
// given a node's number by mistake may ask to be added while the node itself is only away: the node at the node's
// address must be the process that sent the request.
func (p *planner) requestProbes(f *facts) (probes []config.Peer) {
	for _, peer := range f.known {
		request, requested := f.requests[peer.Node]
		s, member := Find(f.servers, peer.Node)
		if !requested || peer.Node == f.self || member && !p.mayReplace(f, s, peer.Node, request) {
			continue
		}
		probes = append(probes, peer)
	}
	return probes
}

// mayReplace reports whether this check may find a member gone for long enough to replace its data directory.
func (p *planner) mayReplace(f *facts, s raft.Server, node session.Node, request joinRequest) bool {
	_, directory, _ := raftnet.ParseServerID(s.ID)
	return directory != request.directory && !f.term.Follows(node) && p.absences[node]+1 >= goneChecks
}

// requestStep returns the next step for one of the nodes that ask to be added.
func (p *planner) requestStep(f *facts, got answers) step {
	for _, peer := range f.known {
		request, requested := f.requests[peer.Node]
		if !requested || peer.Node == f.self {
			delete(p.absences, peer.Node)
			continue
		}
		if next := p.stepOfRequest(f, peer, request, got); next.action != noAction {
			next.node, next.request = peer.Node, request
			return next
		}
	}
	return step{}
}

// stepOfRequest returns the next step towards a configuration in which the requesting node votes.
func (p *planner) stepOfRequest(f *facts, peer config.Peer, request joinRequest, got answers) step {
	node := peer.Node
	id, address := raftnet.ServerID(node, request.directory), raftnet.At(peer.Raft, request.directory)
	runs := got[node].node == node && got[node].directory == request.directory
	s, member := Find(f.servers, node)
	if !member {
		if !runs {
			return step{}
		}
		return step{action: addMember, id: id, address: address}
	}
	_, directory, _ := raftnet.ParseServerID(s.ID)
	_, marks := raftnet.Marks(s.Address)
	switch {
	case DesiredOf(s) != DesiredVoter:
		delete(p.target, node)
		return step{} // an operator decides about it
	case directory != request.directory && len(marks) > 0:
		return step{} // no peers have its address
	case directory != request.directory && f.term.Follows(node):
		delete(p.absences, node)
		return step{}
	case directory != request.directory:
		if p.absences[node]++; p.absences[node] < goneChecks || !runs {
			return step{}
		}
		delete(p.absences, node) // the next requesting directory has to wait as long
		delete(p.target, node)
		return step{action: removeLost, id: s.ID}
	case s.Suffrage == raft.Voter:
		delete(p.absences, node)
		delete(p.target, node) // if it loses its vote, and is to have one again, it has to catch up again
		return step{}
	}
	if p.target[node] == 0 {
		p.target[node] = f.committed
	}
	if request.applied < p.target[node] {
		return step{}
	}
	if len(marks) > 0 {
		address = s.Address
	}
	return step{action: giveVote, id: id, address: address}
}

// peerIn returns the addresses of a node, the zero Peer for an unknown node.
func peerIn(known []config.Peer, node session.Node) config.Peer {
	if at := slices.IndexFunc(known, func(p config.Peer) bool { return p.Node == node }); at >= 0 {
		return known[at]
	}
	return config.Peer{}
}
