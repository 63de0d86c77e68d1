package writes

import (
	"fmt"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Limits bound the unanswered writes at a node (X1, W7).
type Limits struct {
	// Unanswered and Bytes bound those of one session. Bytes counts the bodies and [Overhead] for each write.
	Unanswered, Bytes int
	// NodeBytes bounds the bytes of all sessions. It is a [fair.Nested]: the sessions of a principal have at most three times
	// what is free, and those of one connection three times what that leaves the principal.
	NodeBytes int
	// Quiet is how long a session neither writes nor is answered before its node acknowledges its results (X3).
	Quiet time.Duration
}

// DefaultLimits returns the limits of X1, X3 and W7.
func DefaultLimits() Limits {
	return Limits{
		Unanswered: tree.MaxUnanswered, Bytes: tree.MaxUnansweredBytes, NodeBytes: 64 << 20, Quiet: 10 * time.Second,
	}
}

// Overhead is what each write counts beyond its body, in bytes: no less than what its command has before the body.
const Overhead = 64

// mostWait bounds the wait that a queue chooses by itself after refusals that name none.
const mostWait = time.Second

// take takes the bytes of a write. It returns a [session.LimitError] if they are too much for its session or for the node.
func (t *Table) take(q *queue, size int) error {
	over := func(name, limit string) error {
		return &session.LimitError{Name: name, Limit: limit, RetryAfter: session.BusyRetryAfter}
	}
	switch l := &t.limits; {
	case len(q.pending) >= l.Unanswered:
		return over("unanswered_writes", fmt.Sprintf("%d of a session", l.Unanswered))
	case q.bytes+size > l.Bytes:
		return over("unanswered_write_bytes", fmt.Sprintf("%d of a session", l.Bytes))
	case !q.member.Take(size):
		return over("waiting_write_bytes", fmt.Sprintf("%d of a node; one client, the subject of a certificate or an "+
			"address, may take three quarters of what others leave, and one connection three quarters of that", l.NodeBytes))
	default:
		q.bytes += size
		return nil
	}
}
