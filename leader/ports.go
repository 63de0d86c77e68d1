package leader

import (
	"context"
	"errors"

	"holdfast/session"
)

// Log is where the tracker proposes commands. Safe for concurrent use.
type Log interface {
	// Propose returns when the command has been applied on this node; the state machine's own refusal is the result's
	// Err. An error that is [session.ErrOutcomeUnknown] says that the command may have been, or may yet be, appended;
	// any other that it never was and never will be (E4 relies on it). It ends within a bound of its own.
	Propose(ctx context.Context, c session.Command) (session.Result, error)
}

// View is what the tracker reads of its node. Safe for concurrent use; its methods return at once.
type View interface {
	State
	Consensus
}

// State is what this node has applied.
type State interface {
	// Session returns a session as this node has applied it.
	Session(id session.ID) (session.Session, bool)
	// Verify reports whether c is the credential of id.
	Verify(id session.ID, c session.Credential) bool
	// Attachment is the highest that this node has applied.
	Attachment() uint64
	// AppliedIndex is that of the newest entry that this node has applied.
	AppliedIndex() uint64
}

// Consensus is what this node knows of Raft.
type Consensus interface {
	// Term is Raft's current term as this node reads it now (R2, R3).
	Term() uint64
	// CommitIndex is one to wait for with the state machine's own index (R4).
	CommitIndex() uint64
	// Members are those of the newest configuration, committed or not.
	Members() []session.Member
	// LastIndex is that of the newest entry of this node's log: read after Members, it is not below their
	// configuration's.
	LastIndex() uint64
}

// Sessions is a frozen copy of the state to fill the queue from.
type Sessions interface {
	// Ascend calls yield for the sessions above after in the order of their ids, until it returns false.
	Ascend(after session.ID, yield func(session.Session) bool)
}

// Link is one learner's stream, seen from the leader. Send and Recv are each called by one goroutine, and what is sent
// is not changed afterwards. Whoever calls [Tracker.Follow] makes a blocked Send and Recv return after it has returned.
type Link interface {
	Send(m session.LeaderMessage) error
	Recv() (session.LearnerMessage, error)
}

// Errors that end a tracker or a stream.
var (
	// ErrTermOver: the tracker's term is over; it does nothing any more.
	ErrTermOver = errors.New("the leader's term is over")
	// ErrRestored: the state was replaced as a whole under the tracker.
	ErrRestored = errors.New("the state was restored from a snapshot while leading")
	// ErrDirectory: the node runs on another data directory than the member of its number does.
	ErrDirectory = errors.New("the configuration names another data directory for the node")
	// ErrSuperseded: the node has a newer stream (T6).
	ErrSuperseded = errors.New("the node has opened a newer stream")
	// ErrProtocol: the learner said something that no learner says.
	ErrProtocol = errors.New("learner broke the protocol")
	// ErrSlow: the learner did not read what it was sent.
	ErrSlow = errors.New("learner reads too slowly")
)
