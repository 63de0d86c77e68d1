package session

import (
	"context"
	"time"

	"holdfast/tree"
)

// TreeConnection is the tree's part of a [Connection]: requests go in, and answers and events come out of Next in the
// order in which the client has to hear them (G1 of the tree). Its methods return at once, but for Adopt, and are safe
// for concurrent use. The order of calls is the order of the requests.
//
// An error of Read, AddWatches, RemoveWatches or Write says that the request was not taken and has no answer: a
// [LimitError], [ErrMoved] for a session that the connection does not serve, or [ErrClosed]. Any other refusal comes
// out of Next, in its turn.
type TreeConnection interface {
	// Read takes a read. One that names a session waits for the session's earlier writes (G3).
	Read(r TreeRead) error
	// AddWatches adds watches of the connection; its answer has Lost if they are not told all that they are owed (V4).
	AddWatches(a TreeAddition) error
	// RemoveWatches removes watches of the connection. None of their events comes out after the answer.
	RemoveWatches(key uint64, watches []tree.WatchSpec) error
	// Write takes a numbered write of a session of the connection. A local session is upgraded first (U4).
	Write(w TreeWrite) error
	// Refuse answers a write or read that names a session with an error, in its turn (G3, X8): what the port finds
	// wrong with a request. number is 0 for a read.
	Refuse(key uint64, id ID, number uint64, why error) error
	// Acknowledge says which results the client has in hand (X1).
	Acknowledge(all []Acknowledged)
	// Adopt touches a session that the node owns, through any connection, and lets the connection write for it: for
	// unary calls. A local session is upgraded (U4); the returned token is then the new one. It waits as
	// [Toucher.TouchToken] does, and has its errors.
	Adopt(ctx context.Context, t Token) (Token, error)
	// SetPrincipals replaces those whom the node vouches for (P1), from the next request on. They must not be modified.
	SetPrincipals(all []tree.Principal)
	// Next takes out the next thing to tell the client; false if there is none now. notify is called when there may be.
	Next(now time.Time) (TreeTold, bool)
	// Full returns nil while more requests may wait, and otherwise a channel that is closed once that may be so (G8).
	Full() <-chan struct{}
	// Hold counts bytes of requests that the caller has taken from its client and has not made yet, as requests that
	// wait at the node (G8); it takes them back if they are negative. It reports whether so much waits that the
	// caller should take no more of them. Close takes back what is left.
	Hold(bytes int) (crowded bool)
	// Stuck returns for how long nothing was taken out although there was something (G9).
	Stuck(now time.Time) time.Duration
	// Holding returns how many watches the connection has, and how many bytes of answers wait to be taken out. Watches
	// that have fired are counted for up to a second more.
	Holding() (watches, unsent int)
	// Close ends the tree's part of the connection. Writes under way may still take effect.
	Close()
}

// SessionWatch asks for what happens to global sessions (V8 of the tree).
type SessionWatch struct {
	// Since is the newest stamp that the client was told; 0 to be told from now on.
	Since   tree.Stamp
	Options tree.ReadOptions
}

// SessionTold is one thing that a watcher of sessions is told.
type SessionTold struct {
	// Stamp is that of the change. Without a change, everything up to it was told.
	Stamp tree.Stamp
	// Change is nil for a stamp alone. Lost says that changes up to Stamp may be missing.
	Change *Change
	Lost   bool
}
