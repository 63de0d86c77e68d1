package members

import (
	"encoding/json"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// peerInfo is the JSON of an exchange between two nodes: a node's request and the other node's answer.
type peerInfo struct {
	// Admitted says that the sender is admitted. Names are then the founders. Otherwise Names are the directories of
	// the nodes that the sender has met.
	Admitted bool                `json:"admitted,omitempty"`
	Names    raftnet.Directories `json:"names"`
	// Member says in an answer that the newest configuration names the requesting node with its directory.
	Member bool `json:"member,omitempty"`
	// Unknown says in an answer that the requesting node is missing from the peers of the answering node. A node
	// answers only peers and members, so the requesting node is then a member.
	Unknown bool `json:"unknown,omitempty"`
	// Members are the members of the newest configuration. Answers to waiting nodes and to members carry them, because
	// the requesting node may know only some members.
	Members []config.Peer `json:"members,omitempty"`
	// Drained says in an answer that the answering node is drained, Removed that the requesting node was removed for
	// good.
	Drained bool `json:"drained,omitempty"`
	Removed bool `json:"removed,omitempty"`
	// Retained says in an answer that the requesting node is a member on another directory, and that only an operator
	// replaces that directory.
	Retained bool `json:"retained,omitempty"`
	// Applied is the newest entry that the requesting node has applied.
	Applied uint64 `json:"applied,omitempty"`
	// Term is the Raft term of the answering node.
	Term uint64 `json:"term,omitempty"`
	// Settings are the sender's settings that should be the same on every node.
	Settings map[string]string `json:"settings,omitempty"`
	// Incarnation and Stream name the newest stream that the answering node has opened to a leader (T6 newest stream
	// only).
	Incarnation uint64 `json:"incarnation,omitempty"`
	Stream      uint64 `json:"stream,omitempty"`
}

// Answer answers the request of another node.
func (a *Admission) Answer(from session.Node, directory raftnet.Directory, request []byte) []byte {
	var peer peerInfo
	if from == a.self || json.Unmarshal(request, &peer) != nil {
		return nil
	}
	// Everything that may wait for Raft is read before the lock is taken.
	named, newest := a.directoryOf(from), a.stream()
	member := named == directory && directory != 0
	answer := peerInfo{
		Member: member, Unknown: !a.knowsNode(from), Removed: a.membership.WasRemoved(from), Drained: a.drained.Load(),
		Retained: a.membership.keepsDirectory(from, directory), Term: a.membership.Term(),
		Incarnation: newest.Incarnation, Stream: newest.Stream,
	}
	if (!peer.Admitted || member) && len(a.membership.Servers()) > 0 {
		answer.Members = a.membership.Members()
	}
	a.settings.note(from, peer.Settings)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.founders == nil:
		a.meet(from, directory)
	case a.isForeign(from, &peer): // its log must not be mixed with this node's
		delete(a.requests, from)
	default:
		a.requests[from] = joinRequest{directory, peer.Applied, time.Now()}
	}
	return a.encode(answer)
}

// request returns the request of this node to another node, and the version of met that the request was made from.
func (a *Admission) request(applied uint64) (request []byte, version uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.encode(peerInfo{Applied: applied}), a.version
}

// encode adds what requests and answers have in common. Called with mu held.
func (a *Admission) encode(p peerInfo) []byte {
	p.Admitted, p.Settings = a.founders != nil, a.settings.own
	if p.Names = a.founders; p.Names == nil {
		p.Names = a.met
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic("members: encode an exchange: " + err.Error()) // numbers and texts can always be encoded
	}
	return b
}
