package leader

import (
	"context"
	"errors"

	"holdfast/session"
)

// Log is the tracker's access to the log. Safe for concurrent use.
type Log interface {
	// Propose returns once this node has applied the command. A refusal by the state machine is the result's Err. The
	// error [session.ErrOutcomeUnknown] says that the command may be in the log, or may be appended later. Any other
	// error says that the command was not appended and never will be: E4 relies on this. Propose ends within a bound of
	// its own.
	Propose(ctx context.Context, c session.Command) (session.Result, error)
	// Submit is Propose without a waiting caller. It returns at once and calls done once, without a lock, maybe before
	// it returns. done returns soon and does not block.
	Submit(c session.Command, done func(session.Result, error))
}

// View is the tracker's view of its node. Safe for concurrent use; its methods return at once.
type View interface {
	State
	Consensus
}

// State is the state that this node has applied.
type State interface {
	// Session returns a session; false if the id is unknown.
	Session(id session.ID) (session.Session, bool)
	// Verify reports whether c is the credential of id.
	Verify(id session.ID, c session.Credential) bool
	// Attachment is the highest attachment that this node has applied.
	Attachment() uint64
	// AppliedIndex is the index of the newest entry that this node has applied.
	AppliedIndex() uint64
}

// Consensus is the state of Raft on this node.
type Consensus interface {
	// Term is Raft's current term as this node reads it now (R2 heartbeat answers, R3 good rounds).
	Term() uint64
	// CommitIndex is the index that the state machine must have applied before a read (R4 leadership needs a good round).
	CommitIndex() uint64
	// Members are the members of the newest configuration, committed or not. A stopping node reports none.
	Members() []session.Member
	// LastIndex is the index of the newest entry of this node's log. A LastIndex read after Members is not below the
	// index of their configuration.
	LastIndex() uint64
}

// Sessions is a frozen copy of the state, from which the tracker fills the queue.
type Sessions interface {
	// Ascend calls yield for the sessions with ids above after, in the order of their ids, until yield returns false.
	Ascend(after session.ID, yield func(session.Session) bool)
}

// Link is the leader's end of one learner's stream. One goroutine calls Send, another calls Recv, and a message is
// immutable once sent. After [Tracker.Follow] has returned, its caller makes a blocked Send and Recv return.
type Link interface {
	Send(m session.LeaderMessage) error
	Recv() (session.LearnerMessage, error)
}

// Errors that end a tracker or a stream.
var (
	// ErrTermOver: the tracker's term is over, and the tracker does nothing more.
	ErrTermOver = errors.New("the leader's term is over")
	// ErrRestored: a snapshot replaced the state that the tracker worked on.
	ErrRestored = errors.New("the state was restored from a snapshot while leading")
	// ErrDirectory: the node runs on another data directory than the configuration names for it.
	ErrDirectory = errors.New("the configuration names another data directory for the node")
	// ErrSuperseded: the node has a newer stream (T6 newest stream only).
	ErrSuperseded = errors.New("the node has opened a newer stream")
	// ErrProtocol: the learner sent a message that no learner sends.
	ErrProtocol = errors.New("learner broke the protocol")
	// ErrSlow: the learner did not read fast enough, and the queue for it is full.
	ErrSlow = errors.New("learner reads too slowly")
)
