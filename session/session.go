package session

import (
	"slices"
	"time"

	"holdfast/tree"
)

// Session is a replicated fact, or, when local, a fact that its owner alone knows. It is never a connection and never a
// deadline.
type Session struct {
	ID ID
	// Timeout is the negotiated timeout. It never changes (K-06).
	Timeout time.Duration
	// Owner is the node whose connection serves the session now.
	Owner Node
	// Attachment fences the owner and the connection: new at each open and each move (M1).
	Attachment uint64
	// Instance is the client process whose resume made Attachment, 0 before the first resume (M1). Nodes tell it to the
	// connection that loses the session and to the client whose resume is refused. Reads do not show it.
	Instance uint64
	// Labels are shared and must not be changed.
	Labels Labels
	// OpenedIndex is the Raft index of the entry that opened the session.
	OpenedIndex uint64
	// OpenedAt is the wall clock of the node that received the open, to the millisecond; for people only.
	OpenedAt time.Time
	// Local says that Owner alone knows the session (L1). The owner then numbers the attachments itself, and
	// OpenedIndex is 0.
	Local bool
}

// Token proves that a client holds a session, and names the attachment that it speaks for.
type Token struct {
	ID         ID
	Credential Credential
	Attachment uint64
	// Local says that Attachment is one of a local session, which equals no attachment of the log (L5).
	Local bool
}

// RequestID is a client's name for one open, the same in each repeat (O2).
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
	// had heard of no touch in its term.
	LastTouchAge time.Duration
	// Owner is the session's owner at the end.
	Owner Node
	// Term is the term that decided, Index that of the entry that ended the session. Both are 0 for a local session.
	Term, Index uint64
	// Credited is the time since the deciding leader's term began that counted against no session (A1).
	Credited time.Duration
	// EndedAt is the wall clock of the deciding leader; for people only.
	EndedAt time.Time
	// Left is what the session left behind in the tree.
	Left Left
	// Story tells more of the end.
	Story Story
}

// Story is what a certificate tells besides, so that a person understands the end long after the session is gone. A
// stream that tells an end leaves it out, unless an operator ended the session.
type Story struct {
	// Timeout, OpenedAt and Labels are the session's. The labels are shared and must not be changed.
	Timeout  time.Duration
	OpenedAt time.Time
	Labels   Labels
	// Late is how long after the session was due the leader decided the expiry. Credit is how much later the session was
	// due than its newest touch, or the word for its owner, alone would have it (E1). Both are 0 for other ends.
	Late, Credit time.Duration
	// Silent is how long the leader had not heard from the owner when it decided; 0 unless the owner was lost.
	Silent time.Duration
	// By names the operator who ended the session, and Why is the reason that was given; both are empty for other ends.
	By, Why string
}

// Equal reports whether c and o say the same.
func (c Certificate) Equal(o Certificate) bool {
	return c.ID == o.ID && c.Cause == o.Cause && c.LastTouchAge == o.LastTouchAge && c.Owner == o.Owner &&
		c.Term == o.Term && c.Index == o.Index && c.Credited == o.Credited && c.EndedAt.Equal(o.EndedAt) &&
		c.Left == o.Left && c.Story.equal(&o.Story)
}

func (s *Story) equal(o *Story) bool {
	return s.Timeout == o.Timeout && s.OpenedAt.Equal(o.OpenedAt) && slices.Equal(s.Labels, o.Labels) &&
		s.Late == o.Late && s.Credit == o.Credit && s.Silent == o.Silent && s.By == o.By && s.Why == o.Why
}

// Left is what a session left behind in the tree when it ended (X9, U1, U3). All of it is 0 for a local session.
type Left struct {
	// Instance is the client process that had the session last. A write of that process took effect if its number is
	// above Floor and at most Applied, and it was not a void. A number above Applied never did. Of other numbers, and of
	// those of other processes up to Applied, nothing is known any more.
	Instance, Applied, Floor uint64
	// Ephemerals counts the entries that went with the session, those with a lock-delay included (F2 of the tree).
	Ephemerals uint64
	// Will is what became of the session's will.
	Will tree.WillFate
}

// Member is one node of the newest Raft configuration that a node knows.
type Member struct {
	Node Node
	// Directory is the identity of the node's data directory. The same node on another directory is another member.
	Directory uint64
	Voter     bool
}
