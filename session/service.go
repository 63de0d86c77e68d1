package session

import (
	"context"
	"time"

	"holdfast/tree"
)

// Service is a node's service for clients. Safe for concurrent use.
type Service interface {
	// Connect begins a connection, and passes the events of its sessions to events. Each unary call uses a connection
	// of its own, with nil events.
	Connect(events Events) (Connection, error)
	// Find returns a session and the time until it expires if it stays silent, or an [ExpiredError] with the
	// certificate. The read is linearizable. If the options allow a read of applied state and the node is read-only,
	// the result is marked as applied, or the error is an [AppliedError].
	Find(ctx context.Context, id ID, o ReadOptions) (Listed, error)
	// List returns one page of sessions, in the order of their ids. Each page is a read of its own, as in Find.
	List(ctx context.Context, q Query) (Page, error)
	// State returns the node's mode and progress. No answer from before the call is newer than the state's index.
	State() NodeState
	// AllocateIDs claims a block of ids, which no session and no other claim of the cluster ever gets (O3 id blocks).
	// It returns the first id; the others follow it. A repeat claims another block.
	AllocateIDs(ctx context.Context, r ClaimRequest) (first ID, err error)
	// WatchSessions passes the opens, moves and ends of global sessions to send, in the order of their stamps and a
	// batch at a time, until ctx ends or send returns an error, which WatchSessions returns. The first batch is a
	// single stamp, or a Lost. WatchSessions returns the same refusals as reads of the tree.
	WatchSessions(ctx context.Context, w SessionWatch, send func([]SessionEvent) error) error
}

// Events receives the events of the sessions of one connection. Its methods return at once and are safe for concurrent
// use.
type Events interface {
	// Gone says that a session has ended.
	Gone(c Certificate)
	// Moved says that the client process instance resumed a session with a newer attachment: through another
	// connection, or again through this one, which also gets the attachment in the answer to its resume.
	Moved(id ID, attachment, instance uint64)
	// MovedLocally is Moved for a session that was local and stays local: the attachment is one of its node (L5 local
	// attachments). Every attachment of the log is newer than an attachment of a node.
	MovedLocally(id ID, attachment, instance uint64)
	// Jeopardy says since when touches may not count, and which client addresses to try instead. It is called again
	// when the node becomes read-only, and when it stops being read-only but still knows no leader; [Service.State]
	// then shows the new mode.
	Jeopardy(since time.Time, try []string)
	// JeopardyEnded says that touches count again, and that the node is not read-only.
	JeopardyEnded()
	DrainEvents
}

// Client is the client of a connection, for people.
type Client struct {
	// Address is host:port. Name is the name under which the node knows the client, empty for none; without Verified,
	// it is the client's own claim.
	Address, Name string
	Verified      bool
}

// Identified is an [Events] that knows its client, from the beginning of the connection on.
type Identified interface{ Client() Client }

// DrainEvents receives the requests of a node that is being drained to one connection (Q1 drain). Its methods return at
// once and are safe for concurrent use.
type DrainEvents interface {
	// Draining asks the client to move its sessions. why has the reason and the addresses to try.
	Draining(why *DrainingError)
	// DrainingEnded cancels Draining.
	DrainingEnded()
	// DrainTimeout says that the node waits no longer: the connection must end, with [ErrDraining].
	DrainTimeout()
}

// Connection is one client connection. Its sessions outlive it. Safe for concurrent use.
type Connection interface {
	Toucher
	Requester
	// Upgrade makes a local session of the node global, whichever connection serves it (L7 upgrade). The upgrade of a
	// global session changes nothing.
	Upgrade(ctx context.Context, t Token) (Grant, error)
	// Tree begins the tree's part of the connection. The caller closes it before Disconnect. principals are the
	// client's principals (P1 principals); they must not be modified. notify is called when Next may have something: it
	// must return at once and not use the connection.
	Tree(principals []tree.Principal, notify func()) TreeConnection
	// Promised returns the time from now in which a session of this connection cannot expire, whatever fails (S3 length
	// of a promise); negative for no promise. It is no touch.
	Promised(id ID) time.Duration
	// Disconnect ends the connection. Its sessions stay attached to the node until they are resumed, closed or expire.
	// Started requests that wait for this node's state, before anything was asked of a leader, end with [ErrClosed].
	Disconnect()
}

// Requester accepts requests that change the log, unless a session is local. Safe for concurrent use.
type Requester interface {
	// Open opens a session, served through this connection.
	Open(ctx context.Context, o OpenRequest) (Grant, error)
	// Resume moves a session to this connection.
	Resume(ctx context.Context, r ResumeRequest) (Grant, error)
	// Close ends a session.
	Close(ctx context.Context, t Token) error
	// Start starts an Open, Resume or Close of a global session, by the body of r that is set. It returns at once, and
	// done is called with the outcome, once: by any goroutine, before Start returns or later, also after Disconnect.
	// done must return soon. What r points to must not change until then. Start returns false, and does nothing, when
	// the request must wait for something that is not in the log: the caller must use Open, Resume or Close instead.
	Start(r Request, done func(Grant, error)) bool
	// StartResumes begins to move global sessions to this connection, each as Resume would, and returns at once. done
	// is called with the outcome of each session, in their order, under the same rules as the done of Start. A session
	// that the node is just upgrading is LAGGING at once, where Resume would wait for the upgrade.
	StartResumes(r ResumesRequest, done func([]Resumed))
}

// Toucher accepts touches. Safe for concurrent use.
type Toucher interface {
	// Touch touches the named sessions of this connection, or all of its sessions when ids is empty.
	Touch(ids []ID) Touched
	// TouchToken touches a session that this node owns, through any connection. safeFor is negative when the node can
	// promise nothing now.
	TouchToken(ctx context.Context, t Token) (safeFor time.Duration, err error)
	// TouchAndConfirm is Touch. When the leader has confirmed the touch and that lengthens the promise, confirmed is
	// called with the new promise, counted as the promise of the touch: at most once, by another goroutine, maybe
	// before TouchAndConfirm returns and after Disconnect. It must return soon. It is not called for a touch that
	// refused a session, for local sessions, while no touch is being confirmed, nor when many touches of the connection
	// are already waiting.
	TouchAndConfirm(ids []ID, confirmed func(safeFor time.Duration)) Touched
	// Confirmed waits until the leader has confirmed the touches of TouchToken through this connection since a moment,
	// or until ctx ends. It returns the promises of that moment in the order of the tokens, negative for none. They
	// count from since. It returns at once while no touch is being confirmed.
	Confirmed(ctx context.Context, since time.Time, tokens []Token) []time.Duration
}

// Grant is the result of an open, a resume or an upgrade.
type Grant struct {
	Session Session
	Token   Token
	// SafeFor is the promise (S3), counted from the moment the client sent the request; negative means no promise.
	SafeFor time.Duration
	// Applied is the number of the session's newest applied write, Floor the number up to which results are gone; only
	// after a resume (X4 a new instance starts anew).
	Applied, Floor uint64
}

// Touched is the outcome of a touch.
type Touched struct {
	// SafeFor is the smallest promise of the touched sessions (S3), counted from the moment the client sent the touch.
	// It is negative when one of them has no promise, and when no session was touched.
	SafeFor time.Duration
	// Failures are the sessions that were not touched.
	Failures []TouchFailure
}

// TouchFailure is the reason why a session was not touched.
type TouchFailure struct {
	ID  ID
	Err error
}
