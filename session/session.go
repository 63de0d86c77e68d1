package session

import "time"

// Session is a replicated fact, or a local one of its owner: id, timeout, owner, attachment, labels. It is never a
// connection and never a deadline.
type Session struct {
	ID ID
	// Timeout is the negotiated one. It never changes (K-06).
	Timeout time.Duration
	// Owner is the node whose connection serves the session now.
	Owner Node
	// Attachment fences the owner and the connection: new at each open and each move (M1).
	Attachment uint64
	// Instance is the client process whose resume made Attachment, 0 before the first resume (M1). Nodes tell it to
	// those who held the session and to those whose resume is refused; no read shows it.
	Instance uint64
	// Labels are shared and must not be changed.
	Labels Labels
	// OpenedIndex is the Raft index of the entry that opened the session.
	OpenedIndex uint64
	// OpenedAt is wall-clock time of the node that took the open, to the millisecond; for people only.
	OpenedAt time.Time
	// Local says that Owner alone knows the session (L1). Its attachments are numbers of the owner's own, and
	// OpenedIndex is 0.
	Local bool
}

// Token says who a client is and which attachment it speaks for.
type Token struct {
	ID         ID
	Credential Credential
	Attachment uint64
	// Local says that Attachment is one of a local session, which no attachment of the log is equal to (L5).
	Local bool
}

// RequestID is a client's name for one open, however often it is sent (O2).
type RequestID [16]byte

// Cause says why a session ended.
type Cause uint8

// Causes of an end.
const (
	// CauseClosed is a client's wish.
	CauseClosed Cause = iota + 1
	// CauseExpired is an owner's silence for the session's timeout.
	CauseExpired
)

// String returns the cause in lower case.
func (c Cause) String() string {
	switch c {
	case CauseClosed:
		return "closed"
	case CauseExpired:
		return "expired"
	default:
		return "unknown"
	}
}

// Certificate records a session's end.
type Certificate struct {
	ID    ID
	Cause Cause
	// LastTouchAge is how long before the decision the session was last touched, as far as the leader knew; negative
	// when it had heard of no touch in its term.
	LastTouchAge time.Duration
	// Owner at the end.
	Owner Node
	// Term that decided, and Index of the entry that did it; both 0 of a local session.
	Term, Index uint64
	// Credited is the time that the deciding leader had held against nobody since its term began (A1).
	Credited time.Duration
	// EndedAt is wall-clock time of the deciding leader; for people only.
	EndedAt time.Time
}

// Member is one node of the newest configuration a node knows.
type Member struct {
	Node Node
	// Directory is the identity of the data directory that the node runs on: on another it is another member.
	Directory uint64
	Voter     bool
}
