package session

import "time"

// Command is a change of the replicated state: [OpenSession], [MoveSession], [MoveSessions], [CloseSessions],
// [ForgetRequests], [Configure], [SetCapacity], [ClaimIDs], [UpgradeSession], [FreezeExpiry], [ThawExpiry],
// [ExtendSession], [Tick] or [TreeCommand]. The state machine has no clock and no randomness, so a command carries the
// times and the random values that it needs.
type Command interface{ command() }

func (OpenSession) command()    {}
func (MoveSession) command()    {}
func (MoveSessions) command()   {}
func (CloseSessions) command()  {}
func (ForgetRequests) command() {}
func (Configure) command()      {}
func (SetCapacity) command()    {}
func (ClaimIDs) command()       {}
func (UpgradeSession) command() {}
func (Tick) command()           {}

// OpenSession opens a session; the state machine assigns its id and attachment. If the state remembers the request id,
// and the session of that request is still alive, the result is that session, and nothing changes (O2 idempotent
// opens).
type OpenSession struct {
	Node Node
	// MS is when the node received the open, in milliseconds since [Epoch].
	MS uint64
	Spec
	RequestID RequestID
	// Instance is the client process that opens the session, with attempt 0; 0 if the client does not name it. Such a
	// session may not write before its first move (X5 the opener's instance).
	Instance uint64
}

// MoveSession sets a session's owner and gives the session a new attachment (M1 a resume is a move).
//
//   - A move by the instance of the newest move is refused with a [MovedError] when its Attempt is below the newest. A
//     repeat of the newest attempt for the same owner is answered as the first time.
//   - A move by another instance is refused with a [MovedError] unless Named is the session's present attachment, or no
//     instance has moved the session yet.
type MoveSession struct {
	ID       ID
	NewOwner Node
	Instance uint64
	Attempt  uint64
	// Named is the attachment in the resume's token, never 0.
	Named uint64
	// NamedLocal says that Named is an attachment of a local session, which equals no attachment of the log (L5 local
	// attachments).
	NamedLocal bool
}

// UpgradeSession makes a local session global: it keeps its id and timeout, gets a new attachment, and is owned by the
// node of its id (L7 upgrade). The upgrade of a session that is already global returns the session, and changes
// nothing.
type UpgradeSession struct {
	ID ID
	Spec
	// MS is when the session was opened, in milliseconds since [Epoch].
	MS uint64
	// Instance and Attempt are from the session's newest resume, both 0 without one (M1).
	Instance, Attempt uint64
	// Since is an index that the session's node had applied before it first asked for the upgrade. The upgrade is
	// refused with [ErrExpired] when the state may have dropped the certificate of a session that became global after
	// Since: this session could be that ended one.
	Since uint64
}

// CloseSessions ends the named sessions that still have the named attachments, if Term is the term of its own entry (E3
// ordered closes).
type CloseSessions struct {
	Term     uint64
	Cause    Cause
	Credited time.Duration
	// MS is the deciding leader's wall clock in milliseconds since [Epoch].
	MS uint64
	// Sessions are at most [MaxCloseBatch].
	Sessions []Closing
	// By and Why are as in a [Story]: at most [MaxClientName] and [MaxWhy] bytes of UTF-8.
	By, Why string
	// Weight is the command's amount of work in the tree, according to the leader's state (U2 weight). The log does not
	// have it.
	Weight int
}

// Closing names a session to end.
type Closing struct {
	ID         ID
	Attachment uint64
	// LastTouchAge is negative when the leader knew of no touch.
	LastTouchAge time.Duration
	// Late, Credit and Silent are as in a [Story].
	Late, Credit, Silent time.Duration
}

// Result is the effect of a command.
type Result struct {
	// Term and Index are the term and the index of the entry.
	Term, Index uint64
	// Session is the opened, moved or upgraded session, as of the entry.
	Session Session
	// Repeated says that an earlier entry had already opened, moved or upgraded the session, and this one changed
	// nothing. A repeat confirms no touch (S2 opens and moves are touches).
	Repeated bool
	// First is the first id claimed by a [ClaimIDs].
	First ID
	// Moved has the outcome for each session of a [MoveSessions].
	Moved []MoveResult
	// Closed says for each session of a [CloseSessions] whether it ended; false means that the session was left alone.
	Closed []bool
	// Err is the state machine's refusal: an [ExpiredError], a [MovedError], [ErrIDsUsedUp] or a [FieldError].
	Err error
}
