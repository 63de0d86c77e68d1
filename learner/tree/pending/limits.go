package pending

import (
	"fmt"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Limits bound the unanswered writes at a node (X1 numbered writes, W7 size bounds).
type Limits struct {
	// Unanswered and Bytes bound the writes of one session. Bytes counts the bodies and [Overhead] for each write.
	Unanswered, Bytes int
	// NodeBytes bounds the bytes of all sessions. It is a [fair.Nested]: the sessions of a principal may use at most
	// three times the free part, and those of one connection three times what is free for the principal.
	NodeBytes int
	// Quiet is the time without writes and answers after which the node acknowledges a session's results (X3 kept
	// results).
	Quiet time.Duration
}

// DefaultLimits returns the limits of X1, X3 and W7.
func DefaultLimits() Limits {
	return Limits{
		Unanswered: tree.MaxUnanswered, Bytes: tree.MaxUnansweredBytes, NodeBytes: 64 << 20, Quiet: 10 * time.Second,
	}
}

// Overhead is the number of bytes that each write counts beyond its body: no less than its command has before the body.
const Overhead = 64

// maxWait bounds the wait that a queue chooses itself after refusals without a wait.
const maxWait = time.Second

// reserve counts the bytes of a write. It returns a [session.LimitError] if they exceed a bound of the session or the
// node.
func (t *Table) reserve(q *queue, size int) error {
	over := func(name, limit string) error {
		return &session.LimitError{Name: name, Limit: limit, RetryAfter: session.BusyRetryAfter}
	}
	switch l := &t.limits; {
	case len(q.pending) >= l.Unanswered:
		return over("unanswered_writes", fmt.Sprintf("%d of a session", l.Unanswered))
	case q.bytes+size > l.Bytes:
		return over("unanswered_write_bytes", fmt.Sprintf("%d of a session", l.Bytes))
	case !q.member.Acquire(size):
		return over("pending_write_bytes", fmt.Sprintf("%d of a node; one client (certificate subject or address) may use "+
			"three quarters of the bytes that others do not use, and one connection three quarters of that", l.NodeBytes))
	default:
		q.bytes += size
		return nil
	}
}
