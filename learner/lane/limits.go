package lane

import (
	"fmt"
	"sync/atomic"

	"holdfast/session"
	"holdfast/watch"
)

// Limits bound what waits at a connection.
type Limits struct {
	// Requests and Queued bound the requests of a connection that wait, by their number and bytes (G8).
	Requests, Queued int
	// Unsent is how many bytes of a connection's answers may be unsent when one of its reads runs (G9).
	Unsent int
	// Watches bounds the watches of a connection (V1), Feed its unsent events (V6).
	Watches int
	Feed    watch.FeedLimits
}

// DefaultLimits returns the bounds of G8, G9, V1 and V6.
func DefaultLimits() Limits {
	return Limits{
		Requests: 4096, Queued: 4 << 20, Unsent: 4 << 20, Watches: watch.MaxPerConnection, Feed: watch.DefaultFeedLimits(),
	}
}

// Bounds of all connections of a node together, in bytes.
const (
	MaxNodeQueued = 256 << 20 // requests that wait (G8)
	MaxNodeUnsent = 1 << 30   // unsent answers (G9)
)

// Queued counts the bytes of the requests that wait at a node, for all its lanes. Safe for concurrent use.
type Queued struct {
	limit int64
	taken atomic.Int64
}

// NewQueued returns a count that goes up to limit bytes.
func NewQueued(limit int) *Queued { return &Queued{limit: int64(limit)} }

// Taken returns how many bytes wait.
func (q *Queued) Taken() int { return int(q.taken.Load()) }

func (q *Queued) take(bytes int) error {
	if q.taken.Add(int64(bytes)) > q.limit {
		q.taken.Add(int64(-bytes))
		return &session.LimitError{ // it passes: without a time to come again, clients would end what asks, a watch too
			Name: "node_queued_bytes", Limit: fmt.Sprintf("%d bytes", q.limit), RetryAfter: session.BusyRetryAfter,
		}
	}
	return nil
}

func (q *Queued) give(bytes int) { q.taken.Add(int64(-bytes)) }

// Unsent counts the bytes of a node's unsent answers, for all its lanes. Safe for concurrent use.
type Unsent struct {
	limit   int64
	taken   atomic.Int64
	starved atomic.Bool
}

// NewUnsent returns a count under which reads run below limit bytes.
func NewUnsent(limit int) *Unsent { return &Unsent{limit: int64(limit)} }

// Taken returns how many bytes are unsent.
func (u *Unsent) Taken() int { return int(u.taken.Load()) }

func (u *Unsent) take(bytes int) { u.taken.Add(int64(bytes)) }

// give returns bytes, and reports whether reads that have waited for them may run.
func (u *Unsent) give(bytes int) (room bool) {
	return u.taken.Add(int64(-bytes)) < u.limit && u.starved.Swap(false)
}

// has reports whether a read may run. If not, give tells when. The second look is for bytes that were returned between
// the first look and the note.
func (u *Unsent) has() bool {
	if u.taken.Load() < u.limit {
		return true
	}
	u.starved.Store(true)
	return u.taken.Load() < u.limit
}

// heldPart is the part of the room for a node's requests beyond which no more should wait in front of the lanes.
const heldPart = 2

// Hold counts bytes of requests that wait in front of the lanes, or takes them back if they are negative. It reports
// whether no more of them should come. They have half of the room, so that the requests whose turn has come find the
// rest: those of a client that waits for each answer are refused by nobody who sends much ahead.
func (q *Queued) Hold(bytes int) (crowded bool) { return q.taken.Add(int64(bytes)) >= q.limit/heldPart }

func limitError(name string, limit int, unit string) error {
	return &session.LimitError{Name: name, Limit: fmt.Sprintf("%d %s", limit, unit)}
}
