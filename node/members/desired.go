package members

import (
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Desired is the desired state of a member. It is a mark of the member's address in Raft's configuration, so that any
// later leader can bring it about.
type Desired uint8

const (
	// DesiredVoter says that the member votes once it has caught up. It has no mark.
	DesiredVoter Desired = iota
	// DesiredObserver says that the member has no vote.
	DesiredObserver
	// DesiredRemoved says that the member is drained, loses its vote and is removed.
	DesiredRemoved
)

// String returns the desired state in words, for logs.
func (d Desired) String() string {
	return [...]string{DesiredVoter: "a voter", DesiredObserver: "an observer", DesiredRemoved: "to be removed"}[d]
}

// Marks of an address. PEER_ADDRESS@CLIENT_ADDRESS of a member that an operator has added follows addressMark.
const (
	observerMark = "observer"
	leavingMark  = "leaving"
	addressMark  = "at="
)

// addressOf returns the address in Raft's configuration of a member that is added.
func addressOf(p config.Peer, directory raftnet.Directory, d Desired) raft.ServerAddress {
	return withDesired(raftnet.Mark(raftnet.At(p.Raft, directory), addressMark+p.Peer+"@"+p.Client), d)
}

// withDesired returns an address with another desired state. All other marks stay.
func withDesired(address raft.ServerAddress, d Desired) raft.ServerAddress {
	bare, marks := raftnet.Marks(address)
	marks = slices.DeleteFunc(marks, func(m string) bool { return m == observerMark || m == leavingMark })
	switch d {
	case DesiredObserver:
		marks = append(marks, observerMark)
	case DesiredRemoved:
		marks = append(marks, leavingMark)
	case DesiredVoter:
	}
	return raftnet.Mark(bare, marks...)
}

// DesiredOf returns the desired state of a member.
func DesiredOf(s raft.Server) Desired {
	_, marks := raftnet.Marks(s.Address)
	switch {
	case slices.Contains(marks, leavingMark):
		return DesiredRemoved
	case slices.Contains(marks, observerMark):
		return DesiredObserver
	}
	return DesiredVoter
}

// addressesOf returns the addresses of a member in Raft's configuration, false for a server that is not one of
// Holdfast's. The addresses for learners and for clients are empty for a founder, and for a member that was added
// because it is among the peers.
func addressesOf(s raft.Server) (config.Peer, bool) {
	node, _, err := raftnet.ParseServerID(s.ID)
	if err != nil {
		return config.Peer{}, false
	}
	p := config.Peer{Node: node, Raft: RaftAddress(s)}
	_, marks := raftnet.Marks(s.Address)
	for _, mark := range marks {
		if at, ok := strings.CutPrefix(mark, addressMark); ok {
			p.Peer, p.Client, _ = strings.Cut(at, "@")
		}
	}
	return p, true
}

// RaftAddress returns the address at which Raft dials a server.
func RaftAddress(s raft.Server) string {
	address, _, _ := raftnet.Split(s.Address) // an address without a directory is shown as it is
	return address
}

// Find returns the entry of a node in a configuration, false when the node is no member.
func Find(servers []raft.Server, node session.Node) (raft.Server, bool) {
	for _, s := range servers {
		if of, _, err := raftnet.ParseServerID(s.ID); err == nil && of == node {
			return s, true
		}
	}
	return raft.Server{}, false
}
