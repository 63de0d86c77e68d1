package session

import "holdfast/tree"

// Event is an event for a watcher of sessions. At most one of Opened, Moved, Ended and Lost is set. An event without
// any of them says that all events up to Stamp have been sent.
type Event struct {
	// Stamp is the stamp of the change; with Lost the stamp of rule V6.
	Stamp tree.Stamp
	// Opened is a session that was opened or became global, Moved one with a new attachment.
	Opened, Moved *Session
	// Ended is the certificate of a session that has ended.
	Ended *Certificate
	// Lost says that events up to Stamp may be missing. Reason is [ErrClusterChanged] if the earlier stamps are of
	// another cluster; nil if the watch was away for too long.
	Lost   bool
	Reason error
}

// Watching asks for events of sessions.
type Watching struct {
	// Since is the highest stamp that the client has received; 0 asks for events from now on (V4 resumed watches).
	Since tree.Stamp
	// Options may not ask for a linearizable read.
	Options tree.ReadOptions
}
