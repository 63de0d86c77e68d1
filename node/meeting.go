package node

import (
	"encoding/json"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// meeting is the request or the answer of a meeting, as JSON.
type meeting struct {
	// Admitted says that the sender takes part. Names are then the founders, and otherwise the directories of the nodes
	// that the sender has met.
	Admitted bool        `json:"admitted,omitempty"`
	Names    directories `json:"names"`
	// Member says in an answer that the newest configuration names the asking node with its directory.
	Member bool `json:"member,omitempty"`
	// Stranger says in an answer that the asking node is not among the peers of the answering node. A node answers only
	// peers and members, so that the asking node is then a member.
	Stranger bool `json:"stranger,omitempty"`
	// Members are the members of the newest configuration, in an answer to a node that waits, or to a member: it may not
	// know all of them.
	Members []config.Peer `json:"members,omitempty"`
	// Drained says in an answer that nobody has to be waited for at the answering node, Gone that the asking node was
	// removed for good.
	Drained bool `json:"drained,omitempty"`
	Gone    bool `json:"gone,omitempty"`
	// Kept says in an answer that the number of the asking node is that of a member on another directory, which the leader
	// does not replace by itself.
	Kept bool `json:"kept,omitempty"`
	// Applied is the newest entry that the asking node has applied.
	Applied uint64 `json:"applied,omitempty"`
	// Term is the Raft term of the answering node.
	Term uint64 `json:"term,omitempty"`
	// Settings are the sender's settings that should be the same on every node.
	Settings map[string]string `json:"settings,omitempty"`
	// Incarnation and Stream name the newest stream that the answering node has opened to a leader (T6).
	Incarnation uint64 `json:"incarnation,omitempty"`
	Stream      uint64 `json:"stream,omitempty"`
}

// answer answers a node that meets this one.
func (a *admission) answer(from session.Node, directory raftnet.Directory, request []byte) []byte {
	var m meeting
	if from == a.self || json.Unmarshal(request, &m) != nil {
		return nil
	}
	named, term, newest := a.names(from), a.term(), a.stream()
	var members []config.Peer
	if member := named == directory && directory != 0; (!m.Admitted || member) && len(a.roster.servers()) > 0 {
		members = a.roster.members()
	}
	known, gone, drained := a.knowsNode(from), a.roster.was(from), a.drained.Load()
	kept := a.roster.keeps(from, directory)
	a.agreement.heard(from, m.Settings)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.founders == nil:
		a.meet(from, directory)
	case a.stranger(from, &m): // its log is not to be mixed with this one's
		delete(a.asked, from)
	default:
		a.asked[from] = asking{directory, m.Applied, time.Now()}
	}
	return a.say(meeting{
		Member: named == directory && directory != 0, Stranger: !known, Members: members, Gone: gone, Drained: drained,
		Kept: kept, Term: term, Incarnation: newest.Incarnation, Stream: newest.Stream,
	})
}

// ask returns the request of this node to a node that it meets, and the view that the request was made from.
func (a *admission) ask(applied uint64) (request []byte, view uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.say(meeting{Applied: applied}), a.view
}

// say completes m. Called with mu held.
func (a *admission) say(m meeting) []byte {
	m.Admitted, m.Settings = a.founders != nil, a.agreement.own
	if m.Names = a.founders; m.Names == nil {
		m.Names = a.met
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic("node: encode a meeting: " + err.Error()) // numbers and texts can always be encoded
	}
	return b
}

// believe takes what a node that takes part in this node's cluster says of the members. Called with mu held.
func (a *admission) believe(from session.Node, m *meeting) {
	a.roster.hear(from, m.Members)
	if m.Gone && a.founders != nil {
		a.removed.Store(true)
	}
}
