package session

import "holdfast/tree"

// ChangeKind says what happened to a session.
type ChangeKind uint8

// Kinds of change.
const (
	// Opened is the beginning of a global session: by an open or by an upgrade.
	Opened ChangeKind = iota + 1
	Moved
	Ended
)

// Change is one effect of an applied entry.
type Change struct {
	Kind ChangeKind
	// Session is the session as of the entry, or, of an ended session, as it was before.
	Session Session
	// Former is the session's instance before, set on [Moved] only.
	Former uint64
	// Certificate is set on [Ended] only.
	Certificate Certificate
	// Stamp is the change's own (D2 of the tree). Moves of one command share a stamp.
	Stamp tree.Stamp
}
