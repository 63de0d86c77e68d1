package session

import (
	"context"
	"time"

	"holdfast/tree"
)

// Service is what a node offers its clients. Safe for concurrent use.
type Service interface {
	// Connect begins a connection, and tells events what happens to its sessions. Each unary call uses a connection of
	// its own, with nil events.
	Connect(events Events) (Connection, error)
	// Find returns a session and the time until it expires if it stays silent, or an [ExpiredError] with the
	// certificate. The read is linearizable. If the options allow a read of applied state and the node is read-only,
	// the result is marked as applied, or the error is an [AppliedError].
	Find(ctx context.Context, id ID, o ReadOptions) (Listed, error)
	// List returns one page of sessions, in the order of their ids. Each page is a read of its own, as in Find.
	List(ctx context.Context, q Query) (Page, error)
	// State returns what the node can do now. No answer from before the call is newer than the state's index.
	State() NodeState
	// AllocateIDs claims a block of ids, which no session and no other claim of the cluster ever gets (O3). It returns
	// the first id; the others follow it. A repeat claims another block.
	AllocateIDs(ctx context.Context, r ClaimRequest) (first ID, err error)
	// WatchSessions tells of global sessions that are opened, moved and ended, in the order of their stamps and a batch at
	// a time, until ctx ends or tell returns an error, which it returns. The first batch is a stamp alone, or a Lost. It
	// returns the refusals of reads of the tree.
	WatchSessions(ctx context.Context, w SessionWatch, tell func([]SessionTold) error) error
}

// Events is told what happens to the sessions of one connection. Its methods return at once and are safe for concurrent
// use.
type Events interface {
	// Gone says that a session has ended.
	Gone(c Certificate)
	// Moved says that the client process instance resumed a session with a newer attachment: through another
	// connection, or again through this one, which also gets the attachment in the answer to its resume.
	Moved(id ID, attachment, instance uint64)
	// MovedLocally is Moved for a session that was local and stays local: the attachment is one of its node (L5). Every
	// attachment of the log is newer than an attachment of a node.
	MovedLocally(id ID, attachment, instance uint64)
	// Jeopardy says since when touches may not count, and which client addresses to try instead. It is called again
	// when the node becomes read-only, and when it stops being read-only while it still hears of no leader;
	// [Service.State] then shows the new mode.
	Jeopardy(since time.Time, try []string)
	// JeopardyEnded says that touches count again, and that the node is not read-only.
	JeopardyEnded()
	DrainEvents
}

// Client is who is at the other end of a connection, for people.
type Client struct {
	// Address is host:port. Name is the name under which the node knows the client, empty for none; without Verified, the
	// client says so itself.
	Address, Name string
	Verified      bool
}

// Identified is an [Events] that knows its client, from the beginning of the connection on.
type Identified interface{ Client() Client }

// DrainEvents is told what a node that is being drained wants of one connection (Q1). Its methods return at once and
// are safe for concurrent use.
type DrainEvents interface {
	// Draining says why the client is to move its sessions, and where to.
	Draining(why *DrainingError)
	// DrainingEnded takes Draining back.
	DrainingEnded()
	// Dismissed says that the node waits no longer: the connection is to end, with [ErrDraining].
	Dismissed()
}

// Connection is one client connection. Its sessions outlive it. Safe for concurrent use.
type Connection interface {
	Toucher
	Requester
	// Upgrade makes a local session of the node global, whichever connection serves it (L7). The upgrade of a global
	// session changes nothing.
	Upgrade(ctx context.Context, t Token) (Grant, error)
	// Tree begins the tree's part of the connection. The caller closes it before Disconnect. principals are whom the node
	// vouches for (P1 of the tree); they must not be modified. notify is told that Next may have something: it must return
	// at once and not use the connection.
	Tree(principals []tree.Principal, notify func()) TreeConnection
	// Promised returns for how long from now a session of this connection cannot expire, whatever fails (S3); negative if
	// nothing is promised. It is no touch.
	Promised(id ID) time.Duration
	// Disconnect ends the connection. Its sessions stay attached to the node until they are resumed, closed or expire.
	// What was started and waits for this node's state, before anything was asked of a leader, ends with [ErrClosed].
	Disconnect()
}

// Requester takes requests that change the log, unless a session is local. Safe for concurrent use.
type Requester interface {
	// Open opens a session, served through this connection.
	Open(ctx context.Context, o OpenRequest) (Grant, error)
	// Resume moves a session to this connection.
	Resume(ctx context.Context, r ResumeRequest) (Grant, error)
	// Close ends a session.
	Close(ctx context.Context, t Token) error
	// Start is Open, Resume or Close of a global session, by the body of r that is set. It returns at once, and done is
	// told the outcome, once: by any goroutine, before Start returns or later, also after Disconnect. done must return
	// soon. What r points to must not change until then. Start returns false, and does nothing, when the request has to
	// wait for something that is not in the log: the caller calls Open, Resume or Close for it.
	Start(r Request, done func(Grant, error)) bool
	// StartResumes begins to move global sessions to this connection, each as Resume would, and returns at once. done is
	// told what became of each session, in their order, as the done of Start is told. A session whose upgrade is under
	// way at the node is LAGGING at once, where Resume would wait for the upgrade.
	StartResumes(r ResumesRequest, done func([]Resumed))
}

// Toucher takes touches. Safe for concurrent use.
type Toucher interface {
	// Touch touches the named sessions of this connection, or all of its sessions when ids is empty.
	Touch(ids []ID) Touched
	// TouchToken touches a session that this node owns, through any connection. safeFor is negative when the node can
	// promise nothing now.
	TouchToken(ctx context.Context, t Token) (safeFor time.Duration, err error)
	// TouchAndConfirm is Touch. When the leader has confirmed the touch and more is promised then, confirmed is told that
	// promise, counted as that of the touch: at most once, by another goroutine, maybe before TouchAndConfirm returns and
	// after Disconnect. It must return soon. Nothing is told of a touch that refused a session, of local sessions, while no
	// touch is being confirmed, nor when many touches of the connection wait for that already.
	TouchAndConfirm(ids []ID, confirmed func(safeFor time.Duration)) Touched
	// Confirmed waits until the leader has confirmed what TouchToken has touched through this connection since a moment,
	// or until ctx ends. It returns the promises of that moment in the order of the tokens, negative for none. They count
	// from since. It returns at once while no touch is being confirmed.
	Confirmed(ctx context.Context, since time.Time, tokens []Token) []time.Duration
}

// Grant is what a client gets for an open, a resume or an upgrade.
type Grant struct {
	Session Session
	Token   Token
	// SafeFor is the promise (S3), counted from the moment the client sent the request; negative means no promise.
	SafeFor time.Duration
	// Applied is the number of the session's newest write that was taken, Floor the one up to which results are gone;
	// after a resume alone (X4).
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

// TouchFailure says why a session was not touched.
type TouchFailure struct {
	ID  ID
	Err error
}
