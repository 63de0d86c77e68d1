package session

import (
	"time"

	"holdfast/tree"
)

// Session is a replicated fact, or, when local, a fact that only the owner knows. Connections and deadlines are kept
// elsewhere.
type Session struct {
	ID ID
	Spec
	// Owner is the node whose connection serves the session now.
	Owner Node
	// Attachment fences the owner and the connection: new at each open and each move (M1 a resume is a move).
	Attachment uint64
	// Instance is the client process whose resume made Attachment, 0 before the first resume (M1). Nodes send it to the
	// connection that loses the session and to the client whose resume is refused. Reads do not show it.
	Instance uint64
	// OpenedIndex is the Raft index of the entry that opened the session.
	OpenedIndex uint64
	// OpenedAt is the wall clock of the node that received the open, to the millisecond; for people only.
	OpenedAt time.Time
	// Local says that Owner alone knows the session (L1 local to one node). The owner then numbers the attachments itself,
	// and OpenedIndex is 0.
	Local bool
}

// Token proves that a client holds a session, and names the client's attachment.
type Token struct {
	ID         ID
	Credential Credential
	Attachment uint64
	// Local says that Attachment belongs to a local session; it equals no attachment of the log (L5 local attachments).
	Local bool
}

// RequestID is a client's name for one open, the same in each repeat (O2 idempotent opens).
type RequestID [16]byte

// Cause says why a session ended.
type Cause uint8

// Causes of an end.
const (
	// CauseClosed: a client closed the session.
	CauseClosed Cause = iota + 1
	// CauseExpired: the session was silent for its timeout.
	CauseExpired
	// CauseKilled: an operator ended the session.
	CauseKilled
)

// String returns the cause in lower case.
func (c Cause) String() string {
	switch c {
	case CauseClosed:
		return "closed"
	case CauseExpired:
		return "expired"
	case CauseKilled:
		return "killed"
	default:
		return "unknown"
	}
}

// Certificate records a session's end.
type Certificate struct {
	ID    ID
	Cause Cause
	// LastTouchAge is the time from the last touch that the leader knew of to the decision; negative when the leader
	// knew of no touch in its term.
	LastTouchAge time.Duration
	// Owner is the session's owner at the end.
	Owner Node
	// Term is the term of the decision, Index the index of the entry that ended the session. Both are 0 for a local
	// session.
	Term, Index uint64
	// Credited is the time since the deciding leader's term began that counted against no session (A1 accountable clock).
	Credited time.Duration
	// EndedAt is the wall clock of the deciding leader; for people only.
	EndedAt time.Time
	// Left is what the session left behind in the tree.
	Left Left
	// Story has the details of the end.
	Story Story
}

// Story has the details of a certificate, so that a person understands the end long after the session is gone. The
// event of an end leaves the story out, unless an operator ended the session.
type Story struct {
	// Spec and OpenedAt are the session's.
	Spec
	OpenedAt time.Time
	// Late is the time from the due time of the session to the leader's decision. Credit is the difference between the
	// due time and the one that follows from the newest touch alone, or from the last moment at which the leader
	// confirms the owner (E1 full timeout after a change of leader). Both are 0 for other ends.
	Late, Credit time.Duration
	// Silent is the time from the last contact with the owner to the decision; 0 unless the owner was lost.
	Silent time.Duration
	// By names the operator who ended the session, and Why is the operator's reason; both are empty for other ends.
	By, Why string
}

// Equal reports whether c and o are equal.
func (c Certificate) Equal(o Certificate) bool {
	return c.ID == o.ID && c.Cause == o.Cause && c.LastTouchAge == o.LastTouchAge && c.Owner == o.Owner &&
		c.Term == o.Term && c.Index == o.Index && c.Credited == o.Credited && c.EndedAt.Equal(o.EndedAt) &&
		c.Left == o.Left && c.Story.equal(&o.Story)
}

func (s *Story) equal(o *Story) bool {
	return s.SameSpec(&o.Spec) && s.OpenedAt.Equal(o.OpenedAt) &&
		s.Late == o.Late && s.Credit == o.Credit && s.Silent == o.Silent && s.By == o.By && s.Why == o.Why
}

// Left is what a session left behind in the tree when it ended (X9 writes in the certificate, U1 ephemerals end with
// the session, U3 wills). All of it is 0 for a local session.
type Left struct {
	// Instance is the client process that had the session last. A write of that process took effect if its number is
	// above Floor and at most Applied, and it was not a void. A number above Applied never did. The outcome of other
	// numbers, and of other processes' numbers up to Applied, is no longer known.
	Instance, Applied, Floor uint64
	// Ephemerals is the number of entries that were removed with the session, those with a lock-delay included (H2
	// lock-delay).
	Ephemerals uint64
	// Will is the outcome of the session's will.
	Will tree.WillFate
}

// Member is one node of the newest Raft configuration that a node knows.
type Member struct {
	Node Node
	// Directory is the identity of the node's data directory. The same node on another directory is another member.
	Directory uint64
	Voter     bool
}
