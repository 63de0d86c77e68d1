package node

import (
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// wish is what an operator wants of a member. It is a mark of the member's address in Raft's configuration, so that
// any later leader brings it about.
type wish uint8

const (
	// wishVote: the member votes once it has caught up. Nothing marks it.
	wishVote wish = iota
	// wishObserve: the member has no vote, for good.
	wishObserve
	// wishLeave: the member is drained, loses its vote and is removed.
	wishLeave
)

// Marks of an address. placeMark is followed by PEER_ADDRESS@CLIENT_ADDRESS of a member that an operator has added.
const (
	observerMark = "observer"
	leavingMark  = "leaving"
	placeMark    = "at="
)

// placed returns the address in Raft's configuration of a member that is added.
func placed(p config.Peer, d raftnet.Directory, w wish) raft.ServerAddress {
	return wished(raftnet.Mark(raftnet.At(p.Raft, d), placeMark+p.Peer+"@"+p.Client), w)
}

// wished returns an address with another wish. All other marks stay.
func wished(address raft.ServerAddress, w wish) raft.ServerAddress {
	bare, marks := raftnet.Marks(address)
	marks = slices.DeleteFunc(marks, func(m string) bool { return m == observerMark || m == leavingMark })
	switch w {
	case wishObserve:
		marks = append(marks, observerMark)
	case wishLeave:
		marks = append(marks, leavingMark)
	case wishVote:
	}
	return raftnet.Mark(bare, marks...)
}

// wishOf returns what is wanted of a member.
func wishOf(s raft.Server) wish {
	_, marks := raftnet.Marks(s.Address)
	switch {
	case slices.Contains(marks, leavingMark):
		return wishLeave
	case slices.Contains(marks, observerMark):
		return wishObserve
	}
	return wishVote
}

// placeOf returns the addresses that Raft's configuration has of a member. Those for learners and for clients are
// empty for a founder, and for a member that was taken in because it is among the peers. It is false for a server
// that is none of Holdfast's.
func placeOf(s raft.Server) (config.Peer, bool) {
	node, _, err := nodeOfServer(s.ID)
	if err != nil {
		return config.Peer{}, false
	}
	p := config.Peer{Node: node, Raft: raftAddress(s)}
	_, marks := raftnet.Marks(s.Address)
	for _, mark := range marks {
		if at, ok := strings.CutPrefix(mark, placeMark); ok {
			p.Peer, p.Client, _ = strings.Cut(at, "@")
		}
	}
	return p, true
}

// find returns the member that a node is in a configuration, false when it is none.
func find(servers []raft.Server, node session.Node) (raft.Server, bool) {
	for _, s := range servers {
		if of, _, err := nodeOfServer(s.ID); err == nil && of == node {
			return s, true
		}
	}
	return raft.Server{}, false
}

// addedBefore returns nil if a member is what an operator wants to add: it is a repeat.
func (r *roster) addedBefore(s raft.Server, p config.Peer) error {
	switch known := r.peerOf(p.Node); {
	case known != p:
		return refusal(p.Node, session.MemberKnown, "a member has this number, at %s", raftAddress(s))
	case wishOf(s) == wishLeave:
		return refusal(p.Node, session.MemberLeaving, "it is being removed")
	}
	return nil
}
