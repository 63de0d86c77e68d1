// Package learner is what every node does for its own clients: it serves their connections, keeps their touches, and
// reports those to whichever node leads. A node that leads does so too, through a link to itself.
//
// [Server] lives as long as the node. It owns the [TouchTable] and the connections, and implements session.Service. A
// Relay serves exactly one leader, over one [Link]; when the link ends, so does the relay, and the node gives the
// server a new link.
//
//	client touch --> connection --> TouchTable                      one short lock, no allocation, no network
//	heartbeat    --> Relay: take the table, read h, leave out what has moved (T1) --> answer
//	open, resume --> Relay --> leader --> log --> own state has applied it --> attach to the table (M3)
//
// Rule numbers are those of docs/protocol.md.
package learner

import (
	"context"

	"holdfast/session"
)

// View is the replicated state as this node has applied it. Safe for concurrent use.
type View interface {
	Sessions
	Progress
}

// Sessions is what the state holds.
type Sessions interface {
	Session(id session.ID) (session.Session, bool)
	Certificate(id session.ID) (session.Certificate, bool)
	// Credential is false until the cluster key is known.
	Credential(id session.ID) (session.Credential, bool)
	// Ascend calls yield for the sessions after an id, in order, until it returns false, on a frozen copy.
	Ascend(after session.ID, yield func(session.Session) bool)
}

// Progress is how far the state has come.
type Progress interface {
	// Attachment is the highest one applied, shown after observers were told of it.
	Attachment() uint64
	// AppliedIndex is that of the newest entry applied, shown after observers were told of it.
	AppliedIndex() uint64
	// ShownIndex is that of the newest entry that reads show, which may be one that observers are being told of. Read
	// after a read, it is not below what that showed (N4).
	ShownIndex() uint64
	// DigestAt returns the digest that the state had at an index, false when it is not known (D1).
	DigestAt(index uint64) ([16]byte, bool)
	// Term is Raft's, as this node reads it now.
	Term() uint64
	// WaitApplied returns when the entry at index has been applied.
	WaitApplied(ctx context.Context, index uint64) error
}

// Link is one stream to a leader. Send is called by one goroutine at a time, and so is Recv; both return an error once
// the stream has ended, which ending the context it was made with does, and Close. Close may be called more than once,
// by any goroutine.
type Link interface {
	Send(m session.LearnerMessage) error
	Recv() (session.LeaderMessage, error)
	Close() error
}
