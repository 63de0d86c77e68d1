package session

// Result is what applying a command did.
type Result struct {
	// Term and Index are those of the entry.
	Term, Index uint64
	// Session is the one opened, moved or upgraded, as of the entry.
	Session Session
	// Repeated says that the open, move or upgrade had been done by an earlier entry, and this one changed nothing. It
	// confirms no touch (S2).
	Repeated bool
	// First is the first of the ids that a [ClaimIDs] claimed.
	First ID
	// Closed says for each session of a [CloseSessions] whether it ended; false: the state machine left it alone.
	Closed []bool
	// Err is the state machine's refusal: an [ExpiredError], a [MovedError], [ErrIDsUsedUp] or a [FieldError].
	Err error
}

// ChangeKind says what happened to a session.
type ChangeKind uint8

// Kinds of change.
const (
	// Opened is a session's beginning as a global one: an open or an upgrade.
	Opened ChangeKind = iota + 1
	Moved
	Ended
)

// Change is one effect of an applied entry.
type Change struct {
	Kind ChangeKind
	// Session is as of the entry; of an ended session, as it was last.
	Session Session
	// Certificate is set on [Ended] only.
	Certificate Certificate
}
