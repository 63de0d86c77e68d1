package session

import (
	"context"
	"time"
)

// Service is what a node offers its clients. Safe for concurrent use.
type Service interface {
	// Connect begins a connection; what happens to its sessions is told to events. Unary calls use a connection of
	// their own with nil events.
	Connect(events Events) (Connection, error)
	// Find returns a session and the time until it expires if it stays silent, or an [ExpiredError] with the
	// certificate. The read is linearizable, unless the options allow another: then the result is marked as applied, or
	// its error is an [AppliedError].
	Find(ctx context.Context, id ID, o ReadOptions) (Listed, error)
	// List returns one page, in the order of ids. Each page is a read as in Find.
	List(ctx context.Context, q Query) (Page, error)
	// State returns what the node can do now; what was answered before the call is not newer than its index.
	State() NodeState
	// AllocateIDs claims ids that are unique across the cluster, for ever, session ids included, and returns the first;
	// the others follow it (O3). A repeat claims others.
	AllocateIDs(ctx context.Context, r ClaimRequest) (first ID, err error)
}

// Events hears of what happens to the sessions of one connection. Its methods return at once and are safe for
// concurrent use.
type Events interface {
	// Gone says that a session has ended.
	Gone(c Certificate)
	// Moved says that a session was resumed with a newer attachment: through another connection, or once more through
	// this one, which then learns of the attachment from the answer to its resume. Instance is the client process that
	// resumed it.
	Moved(id ID, attachment, instance uint64)
	// MovedLocally is Moved for a session that was and stays a local one: the attachment is its node's (L5). Every
	// attachment of the log is newer than those.
	MovedLocally(id ID, attachment, instance uint64)
	// Jeopardy says that touches may not count since a moment, and which client addresses to try instead. It is said
	// again when the node becomes read-only meanwhile, or is no longer and still hears of no leader: [Service.State]
	// then says so.
	Jeopardy(since time.Time, try []string)
	// JeopardyEnded says that touches count again, and that a node which was read-only is so no longer.
	JeopardyEnded()
}

// Connection is one client connection. Its end ends no session. Safe for concurrent use.
type Connection interface {
	Toucher
	// Open opens a session, served through this connection.
	Open(ctx context.Context, o OpenRequest) (Grant, error)
	// Resume moves a session to this connection.
	Resume(ctx context.Context, r ResumeRequest) (Grant, error)
	// Upgrade makes a local session of the node global, whichever connection serves it, and changes nothing of a global
	// one (L7).
	Upgrade(ctx context.Context, t Token) (Grant, error)
	// Close ends a session.
	Close(ctx context.Context, t Token) error
	// Disconnect ends the connection. Its sessions stay attached to the node until they are resumed, closed or expire.
	Disconnect()
}

// Toucher takes signs of life. Safe for concurrent use.
type Toucher interface {
	// Touch touches sessions of this connection, all of them when ids is empty.
	Touch(ids []ID) Touched
	// TouchToken touches a session that this node owns, through whichever connection. The promise is negative when the
	// node can promise nothing now.
	TouchToken(ctx context.Context, t Token) (safeFor time.Duration, err error)
}

// Grant is what a client gets for an open, a resume or an upgrade.
type Grant struct {
	Session Session
	Token   Token
	// SafeFor is counted from the moment the client sent the request; negative: no promise.
	SafeFor time.Duration
}

// Touched is the outcome of a touch.
type Touched struct {
	// SafeFor is the smallest promise of the touched sessions (S3), counted from the moment the client sent the touch;
	// negative when one of them has none, or none was touched.
	SafeFor time.Duration
	// Failures are the sessions that were not touched.
	Failures []TouchFailure
}

// TouchFailure says why a session was not touched.
type TouchFailure struct {
	ID  ID
	Err error
}
