package session

import "time"

// Command is a change of the replicated state: [OpenSession], [MoveSession], [MoveSessions], [CloseSessions],
// [ForgetRequests], [Configure], [SetCapacity], [ClaimIDs], [UpgradeSession], [FreezeExpiry],
// [ThawExpiry], [ExtendSession], [Tick] or [TreeCommand]. The state machine has no clock and no randomness, so a
// command carries what it needs of either.
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

// OpenSession makes a session; the state machine assigns its id and attachment. A request id that the state remembers
// answers with the session of its first open if that session is still alive, and changes nothing (O2).
type OpenSession struct {
	Node Node
	// MS is when the node received the open, in milliseconds since [Epoch].
	MS        uint64
	Timeout   time.Duration
	Labels    Labels
	RequestID RequestID
	// Instance is the client process that opens the session, with attempt 0; 0 if the client does not say it. Such a
	// session may not write before its first move (X5).
	Instance uint64
}

// MoveSession sets a session's owner and gives the session a new attachment (M1).
//
//   - A move by the instance that moved the session last is refused with a [MovedError] when its Attempt is below the
//     newest. A repeat of the newest attempt for the same owner is answered as the first time.
//   - A move by another instance is refused with a [MovedError] unless Named is the session's present attachment, or
//     no instance has moved the session yet.
type MoveSession struct {
	ID       ID
	NewOwner Node
	Instance uint64
	Attempt  uint64
	// Named is the attachment in the resume's token, never 0.
	Named uint64
	// NamedLocal says that Named is an attachment of a local session, which equals no attachment of the log (L5).
	NamedLocal bool
}

// UpgradeSession makes a local session global: it keeps its id and timeout, gets a new attachment, and is owned by the
// node of its id (L7). The upgrade of a session that is global already answers with the session, and changes nothing.
type UpgradeSession struct {
	ID      ID
	Timeout time.Duration
	Labels  Labels
	// MS is when the session was opened, in milliseconds since [Epoch].
	MS uint64
	// Instance and Attempt are those of the session's newest resume, both 0 when there was none (M1).
	Instance, Attempt uint64
	// Since is an index that the session's node had applied before it first asked for the upgrade. The upgrade is
	// refused with [ErrExpired] when the state may have dropped the certificate of a session that became global after
	// Since: this session could be the one that ended.
	Since uint64
}

// CloseSessions ends the sessions that still have the attachments that it names, if Term is the term of its own entry
// (E3).
type CloseSessions struct {
	Term     uint64
	Cause    Cause
	Credited time.Duration
	// MS is the deciding leader's wall clock in milliseconds since [Epoch].
	MS uint64
	// Sessions are at most [MaxCloseBatch].
	Sessions []Closing
	// By and Why are those of a [Story]: at most [MaxPrincipal] and [MaxWhy] bytes of UTF-8.
	By, Why string
	// Weight is how much work the command makes in the tree, as the leader's state counts it (U2). The log does not
	// have it.
	Weight int
}

// Closing names a session to end.
type Closing struct {
	ID         ID
	Attachment uint64
	// LastTouchAge is negative when the leader knew of no touch.
	LastTouchAge time.Duration
	// Late, Credit and Silent are those of a [Story].
	Late, Credit, Silent time.Duration
}

// Result is what applying a command did.
type Result struct {
	// Term and Index are those of the entry.
	Term, Index uint64
	// Session is the opened, moved or upgraded session, as of the entry.
	Session Session
	// Repeated says that an earlier entry had done the open, move or upgrade, and this one changed nothing. A repeat
	// confirms no touch (S2).
	Repeated bool
	// First is the first id that a [ClaimIDs] claimed.
	First ID
	// Moved says of each session of a [MoveSessions] what became of it.
	Moved []MoveResult
	// Closed says for each session of a [CloseSessions] whether it ended; false means that the session was left alone.
	Closed []bool
	// Err is the state machine's refusal: an [ExpiredError], a [MovedError], [ErrIDsUsedUp] or a [FieldError].
	Err error
}
