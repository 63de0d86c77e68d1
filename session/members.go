package session

import (
	"errors"
	"fmt"
)

// ErrMemberRefused is what a [MemberRefusedError] is.
var ErrMemberRefused = errors.New("members are not changed")

// MemberCause is why a change of the members is refused.
type MemberCause string

// Causes of a [MemberRefusedError].
const (
	// MemberQuorum: the voters that would remain, and are heard, would be no quorum.
	MemberQuorum MemberCause = "quorum"
	// MemberUsedUp: the number belonged to a node that was removed. Numbers are used once (I7).
	MemberUsedUp MemberCause = "used_up"
	// MemberUnknown: no member has the number.
	MemberUnknown MemberCause = "unknown"
	// MemberKnown: a member has the number or one of the addresses already.
	MemberKnown MemberCause = "known"
	// MemberSilent: the node cannot be reached, or is not heard.
	MemberSilent MemberCause = "silent"
	// MemberForeign: at the address is another node, or one of another cluster.
	MemberForeign MemberCause = "foreign"
	// MemberLeaving: the member is being removed.
	MemberLeaving MemberCause = "leaving"
)

// MemberRefusedError is [ErrMemberRefused]: nothing was changed.
type MemberRefusedError struct {
	Node  Node
	Cause MemberCause
	// Why is the reason, in words.
	Why string
}

func (e *MemberRefusedError) Error() string {
	return fmt.Sprintf("%v: node %d: %s", ErrMemberRefused, e.Node, e.Why)
}

// Is makes e an [ErrMemberRefused].
func (e *MemberRefusedError) Is(target error) bool { return target == ErrMemberRefused }

// MemberPlace says where a node is: addresses, each HOST:PORT that other nodes and clients can reach.
type MemberPlace struct {
	Node Node
	// Raft and Peer are for the other nodes, Client for clients.
	Raft, Peer, Client string
}
