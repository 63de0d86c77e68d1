package session

import (
	"errors"
	"fmt"
)

// ErrMemberRefused is the sentinel of [MemberRefusedError].
var ErrMemberRefused = errors.New("change of members refused")

// Errors of a transfer of leadership.
var (
	// ErrNoOtherVoter says that no other node votes, or that the requested node does not vote.
	ErrNoOtherVoter = errors.New("no other node is a voter")
	// ErrTransferTimeout says that the node still leads.
	ErrTransferTimeout = errors.New("no other node took over in time")
)

// MemberCause is the reason why a change of the members is refused.
type MemberCause string

// Causes of a [MemberRefusedError].
const (
	// MemberQuorum: the responsive voters that would remain are fewer than a quorum.
	MemberQuorum MemberCause = "quorum"
	// MemberUsedUp: the number belonged to a node that was removed. Numbers are used once (I7 ids are never reused).
	MemberUsedUp MemberCause = "used_up"
	// MemberUnknown: no member has the number.
	MemberUnknown MemberCause = "unknown"
	// MemberKnown: a member already has the number or one of the addresses.
	MemberKnown MemberCause = "known"
	// MemberSilent: the node is unreachable or unresponsive.
	MemberSilent MemberCause = "silent"
	// MemberForeign: the address belongs to another node, or to a node of another cluster.
	MemberForeign MemberCause = "foreign"
	// MemberLeaving: the member is being removed.
	MemberLeaving MemberCause = "leaving"
)

// MemberRefusedError is [ErrMemberRefused]: nothing was changed.
type MemberRefusedError struct {
	Node  Node
	Cause MemberCause
	// Why is the reason, for people.
	Why string
}

func (e *MemberRefusedError) Error() string {
	return fmt.Sprintf("%v: node %d: %s", ErrMemberRefused, e.Node, e.Why)
}

// Is makes e an [ErrMemberRefused].
func (e *MemberRefusedError) Is(target error) bool { return target == ErrMemberRefused }

// MemberPlace has the addresses of a node, each HOST:PORT that other nodes and clients can reach.
type MemberPlace struct {
	Node Node
	// Raft and Peer are for the other nodes, Client for clients.
	Raft, Peer, Client string
}
