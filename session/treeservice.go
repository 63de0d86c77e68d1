package session

import (
	"context"
	"time"

	"holdfast/tree"
)

// TreeConnection is the tree's part of a [Connection]: requests go in, and Next returns answers and events in the order
// in which the client must receive them (G1 order per connection). Its methods return at once, except Adopt, and are
// safe for concurrent use. The order of calls is the order of the requests.
//
// An error of Read, AddWatches, RemoveWatches or Write says that the request was not accepted and has no answer: a
// [LimitError], [ErrMoved] for a session that the connection does not serve, or [ErrClosed]. Any other refusal is an
// answer of Next, in its turn.
type TreeConnection interface {
	// Read accepts a read. A read that names a session waits for the session's earlier writes (G3 order in a session).
	Read(r TreeRead) error
	// AddWatches adds watches of the connection; its answer has Lost if they do not get all the events since their
	// stamps (V4 resumed watches).
	AddWatches(a TreeAddition) error
	// RemoveWatches removes watches of the connection. None of their events follows the answer.
	RemoveWatches(key uint64, watches []tree.WatchSpec) error
	// Write accepts a numbered write of a session of the connection. A local session is upgraded first (U4 the first
	// write upgrades).
	Write(w TreeWrite) error
	// Refuse answers a write or read that names a session with an error, in its turn (G3, X8 admission of writes),
	// because the port has refused the request. number is 0 for a read.
	Refuse(key uint64, id ID, number uint64, why error) error
	// Acknowledge says which results the client has received (X1 numbered writes).
	Acknowledge(all []Acknowledged)
	// Adopt touches a session that the node owns, through any connection, and lets the connection write for it: for
	// unary calls. A local session is upgraded (U4); the returned token is then the new one. It waits as
	// [Toucher.TouchToken] does, and has the same errors.
	Adopt(ctx context.Context, t Token) (Token, error)
	// SetPrincipals replaces the client's principals (P1 principals), from the next request on. They must not be
	// modified.
	SetPrincipals(all []tree.Principal)
	// Next removes and returns the next message for the client; false if there is none now. notify is called when there
	// may be.
	Next(now time.Time) (TreeMessage, bool)
	// Full returns nil while more requests may wait, and otherwise a channel that is closed once that may be so again
	// (G8 request bounds).
	Full() <-chan struct{}
	// Hold counts bytes of requests that the caller has received from its client and has not made yet, as requests that
	// wait at the node (G8). Negative bytes end that. Hold reports whether so many bytes wait that the caller should
	// receive no more requests. Close releases the rest.
	Hold(bytes int) (crowded bool)
	// Stuck returns the time for which Next was not called although there was something (G9 answer bounds).
	Stuck(now time.Time) time.Duration
	// Holding returns the number of the connection's watches, and the number of bytes of answers that wait for Next.
	// Watches that have fired are counted for up to a second more.
	Holding() (watches, unsent int)
	// Close ends the tree's part of the connection. Unanswered writes may still take effect.
	Close()
}

// SessionWatch asks for the events of global sessions (V8 events need READ).
type SessionWatch struct {
	// Since is the newest stamp that the client has received; 0 asks for events from now on.
	Since   tree.Stamp
	Options tree.ReadOptions
}

// SessionEvent is one event for a watcher of sessions.
type SessionEvent struct {
	// Stamp is the stamp of the change. Without a change, all events up to it have been sent.
	Stamp tree.Stamp
	// Change is nil for a stamp alone. Lost says that changes up to Stamp may be missing.
	Change *Change
	Lost   bool
}
