package tree

import "time"

// Kind says how an entry ends, besides being deleted.
type Kind uint8

// The kinds of entries.
const (
	// Persistent: by nothing else.
	Persistent Kind = 1 + iota
	// Ephemeral: with its owner's session, in the log entry that ends it (U1).
	Ephemeral
	// Container: some time after its last child has gone, or after its creation if it never had one (D5).
	Container
	// Expiring: its TTL after its last change of data, unless it has children then (D5).
	Expiring
	// Lingering: its lock-delay after its owner's session has expired. It was ephemeral before, and has no owner (F2).
	Lingering
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Persistent:
		return "persistent"
	case Ephemeral:
		return "ephemeral"
	case Container:
		return "container"
	case Expiring:
		return "expiring"
	case Lingering:
		return "lingering"
	default:
		return "unknown"
	}
}

// Stat is what is known of an entry besides its data.
type Stat struct {
	// Created is the change that made the entry, and its fencing token (F1). Modified is the one that set its data last,
	// ChildrenModified the one that made or removed a child last.
	Created, Modified, ChildrenModified Stamp
	// CreatedAt and ModifiedAt are wall-clock times of the leaders of those changes; for people only.
	CreatedAt, ModifiedAt time.Time
	// Version counts the changes of the data, ACLVersion those of the access list, from 0.
	Version, ACLVersion int64
	// ChildrenVersion counts the children that were made and removed (D4).
	ChildrenVersion int64
	// Owner is the session of an ephemeral, 0 of any other entry.
	Owner uint64
	// Bytes is the length of the data. Children counts the entries just below this one.
	Bytes, Children int
	Kind            Kind
	// Due is when the entry ends by itself, on the log clock (D3); 0 for never, or not while it has children.
	Due time.Duration
	// Remaining is the time until Due, as the node that answered a read knows the log clock: it may know it a minute late,
	// and then tells so much too long. It is 0 without Due, in the results of writes, and in what the state keeps.
	Remaining time.Duration
}
