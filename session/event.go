package session

import "holdfast/tree"

// Event is what a watcher of sessions is told (V8). At most one of Opened, Moved, Ended and Lost is set. With none,
// everything up to Stamp was told.
type Event struct {
	// Stamp is the change's; with Lost that of V6.
	Stamp tree.Stamp
	// Opened is a session that was opened or became global, Moved one with a new attachment.
	Opened, Moved *Session
	// Ended is the certificate of a session that has ended.
	Ended *Certificate
	// Lost says that events up to Stamp may be missing. Reason is [ErrClusterChanged] if the stamps before it are another
	// cluster's; nil if the watch was away for too long.
	Lost   bool
	Reason error
}

// Watching asks to be told of sessions.
type Watching struct {
	// Since is the highest stamp that the client was told; 0 to be told from now on (V4).
	Since tree.Stamp
	// Options may not ask for a linearizable read.
	Options tree.ReadOptions
}
