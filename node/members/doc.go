// Package members decides who belongs to the cluster.
//
//   - [Membership] knows the members and their addresses, from Raft's newest configuration and this node's peers.
//   - [Admission] decides whether this node may run Raft; [Exchange] asks the other nodes for what Admission
//     needs; [OlderCopyCheck] ends a node whose data directory was set back to an older copy.
//   - [Operator] carries out the requests of operators: add, promote, demote, remove, transfer leadership. It writes
//     the desired state of a member ([Desired]) into Raft's configuration.
//   - [Reconciler] runs on the leader. It brings the configuration to the desired state, one change at a time, and
//     replaces members whose data directory was lost. Its planner decides, without I/O.
//
// docs/protocol.md has the rules (J).
package members

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Directory is this node's data directory.
type Directory interface {
	Path() string
	// Admit writes the cluster's founders to the directory: from then on the node is admitted, also after a restart.
	Admit(raftnet.Directories) error
	// MarkOlderCopy has the next start set the directory's files aside, and begin as a new member.
	MarkOlderCopy() error
}

// Network is this node's Raft port. *[raftnet.Layer] is one.
type Network interface {
	// Meet sends a request to the node at an address, and returns the node's answer.
	Meet(ctx context.Context, address string, request []byte) (raftnet.Met, error)
	// Admit lets Raft send and receive, Leave cuts Raft off for good.
	Admit()
	Leave()
}

// Term is the tracker of the term that this node leads. *[leader.Tracker] is one.
type Term interface {
	Peers() []leader.Peer
	// Follows reports whether a node has a stream to this leader.
	Follows(session.Node) bool
	// Newest is the newest round, Good the newest round that a quorum has answered.
	Newest() uint64
	Good() uint64
}

// Transfer transfers leadership away from this node. *[health.Transfer] is one. Its errors are
// [session.ErrNoOtherVoter] and [session.ErrTransferTimeout].
type Transfer interface {
	// Voters are the other voters.
	Voters() map[session.Node]raft.Server
	ToAny(context.Context) error
	ToServer(context.Context, raft.Server) error
}

const (
	// pollInterval is the time between two reads of a value that Raft does not report by itself.
	pollInterval = 10 * time.Millisecond
	// warnInterval is the shortest time between two warnings about one condition that lasts.
	warnInterval = 10 * time.Second
)
