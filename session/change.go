package session

import "holdfast/tree"

// ChangeKind is the kind of a change of a session.
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
	// Session is the session as of the entry, or before the entry if that ended the session.
	Session Session
	// Former is the session's previous instance, set on [Moved] only.
	Former uint64
	// Certificate is set on [Ended] only. It is shared, and never changes.
	Certificate *Certificate
	// Stamp is the stamp of the change (D2 stamps). Moves of one command share a stamp.
	Stamp tree.Stamp
}
