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

// Sessions are the sessions of the state.
type Sessions interface {
	Session(id session.ID) (session.Session, bool)
	Certificate(id session.ID) (session.Certificate, bool)
	// Deaths calls yield for the certificates before a number, newest first, until yield returns false, and returns the
	// number of the oldest kept certificate.
	Deaths(before uint64, yield func(number uint64, c *session.Certificate) bool) (oldest uint64)
	// Cluster is the identity of the cluster, 0 until the cluster key is known. After that it never changes.
	Cluster() uint64
	// Credential is false until the cluster key is known.
	Credential(id session.ID) (session.Credential, bool)
	// Ascend calls yield for the sessions after an id, in order, until yield returns false, on a frozen copy.
	Ascend(after session.ID, yield func(session.Session) bool)
}

// Progress is the progress of the state.
type Progress interface {
	// Attachment is the highest applied attachment. It rises after the entry's observers were notified.
	Attachment() uint64
	// AppliedIndex is the index of the newest applied entry. It rises after the entry's observers were notified.
	AppliedIndex() uint64
	// ShownIndex is the index of the newest entry that reads show, which may be an entry whose observers are being
	// notified. Called after a read, it is not below the entry that the read showed (N4 seen index).
	ShownIndex() uint64
	// DigestAt returns the digest that the state had at an index, false when the node does not know it (C1 digest
	// comparison).
	DigestAt(index uint64) ([16]byte, bool)
	// Term is Raft's present term.
	Term() uint64
	// WaitApplied returns when the entry at index has been applied.
	WaitApplied(ctx context.Context, index uint64) error
}

// Link is one stream to a leader. One goroutine at a time calls Send, and one calls Recv. Both return an error once the
// stream has ended, by Close or with the context of its creation. Any goroutine may call Close, also more than once.
type Link interface {
	Send(m session.LearnerMessage) error
	Recv() (session.LeaderMessage, error)
	Close() error
}
