package session

import "time"

// Command is a change of the replicated state: [OpenSession], [MoveSession], [CloseSessions], [ForgetRequests],
// [Configure], [SetCapacity], [ClaimIDs] or [UpgradeSession]. The state machine has no clock and no randomness: a
// command carries what it needs of either.
type Command interface{ command() }

// OpenSession makes a session; the state machine assigns its id and attachment. A request id that is remembered answers
// with the session of its first open, if that is still alive, and moves nothing (O2).
type OpenSession struct {
	Node Node
	// MS is when the node took the open, in milliseconds since [Epoch].
	MS        uint64
	Timeout   time.Duration
	Labels    Labels
	RequestID RequestID
}

// MoveSession sets a session's owner and gives it a new attachment. It is refused with a [MovedError] when Attempt is
// below the newest of the session's present Instance, and when Instance is another than that and Named is not the
// session's present attachment. The newest attempt again, for the same owner, is answered as the first time (M1).
type MoveSession struct {
	ID       ID
	NewOwner Node
	Instance uint64
	Attempt  uint64
	// Named is the attachment of the resume's token; 0 in entries that versions before this rule wrote: any will do.
	Named uint64
	// NamedLocal says that Named is one of a local session: equal to no attachment of the log (L5).
	NamedLocal bool
}

// CloseSessions ends the sessions that are still as named, if the entry's own term is Term (E3).
type CloseSessions struct {
	Term     uint64
	Cause    Cause
	Credited time.Duration
	// MS is the deciding leader's wall clock in milliseconds since [Epoch].
	MS uint64
	// Sessions are at most [MaxCloseBatch].
	Sessions []Closing
}

// Closing names a session to end.
type Closing struct {
	ID         ID
	Attachment uint64
	// LastTouchAge is negative when the leader knew of no touch.
	LastTouchAge time.Duration
}

// ForgetRequests drops the request ids of opens up to an index (O2).
type ForgetRequests struct{ UpToIndex uint64 }

// Configure is how a leader begins its term (R5). Key is taken when the cluster has none yet.
type Configure struct {
	Key   Key
	Nonce uint64
}

func (OpenSession) command()    {}
func (MoveSession) command()    {}
func (CloseSessions) command()  {}
func (ForgetRequests) command() {}
func (Configure) command()      {}
