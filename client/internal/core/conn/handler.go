package conn

import (
	"time"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

// Needs reports what needs a connection.
type Needs interface {
	// Idle reports whether nothing needs a connection.
	Idle() bool
	// Held counts and describes the sessions and the opens.
	Held() Held
	// NeedsLeader reports whether anything needs more than the read-only node of c.
	NeedsLeader(c *Conn) bool
	// Serves reports whether c serves any session.
	Serves(c *Conn) bool
	// TooLate reports whether r should go to another node, because waiting for this node would leave less than spare of
	// a promise.
	TooLate(r *window.Request, spare time.Duration) bool
}

// Held describes the sessions that the client holds, and the pending opens.
type Held struct {
	Sessions, Opens int
	// Local: the client holds a local session. OnlyLocal: it holds local sessions and no other. A session that a caller
	// is resuming may be at home at any node, and does not count as local.
	Local, OnlyLocal bool
	// Promised: the promise of a session has not run out. Upgrading: an upgrade was sent whose outcome is unknown.
	Promised, Upgrading bool
	// Timeout is the smallest timeout; zero without sessions.
	Timeout time.Duration
}

// Handler receives the events of connections, and queues the requests that follow.
type Handler interface {
	// CandidateUp queues the first requests on a candidate that has come up.
	CandidateUp(c *Conn)
	// ResumeSessions queues a resume for each session without a connection and without a pending resume.
	ResumeSessions()
	// SendOpens queues each open that is on no connection.
	SendOpens()
	// Dropped releases the requests of c, which is closed, and detaches its sessions. err is why the connection ended,
	// nil if the client closed it.
	Dropped(c *Conn, err error)
	// Denied answers the callers that wait for a connection: every node that answered denies the client.
	Denied(err error)
	// Jeopardy reports that the node of c knows no leader because of err, or knows a leader again if err is nil (S4
	// jeopardy).
	Jeopardy(c *Conn, err error)
	// ReadOnly reports that the node of the current connection is read-only from now on.
	ReadOnly(c *Conn)
	// ReadsEnded reports that the node of the current connection does not even serve reads any more.
	ReadsEnded(c *Conn)
	// ClusterChanged reports that the current node belongs to another cluster than the nodes before.
	ClusterChanged()
	// SignOfLife returns a request that any node answers at once.
	SignOfLife(c *Conn) Body
}

// Body is the content of a request.
type Body interface {
	window.Body
	// Message returns the message to send under seq.
	Message(seq uint64) *holdfastv1.ClientMessage
}

// batched is a Body that may share a message with others of its kind.
type batched interface {
	Body
	// Batches reports whether the body may share a message now.
	Batches() bool
	// Batch returns the body of a message for all members.
	Batch(members []*window.Request) Body
}

// retried is a Body with its own wait before a retry.
type retried interface {
	// RetryIn returns the wait before the n-th retry after a refusal that names a moment.
	RetryIn(n int, err error) time.Duration
}

func batches(b window.Body) bool {
	r, ok := b.(batched)
	return ok && r.Batches()
}
