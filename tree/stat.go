package tree

import "time"

// Kind says how an entry ends without being deleted.
type Kind uint8

// The kinds of entries.
const (
	// Persistent: never.
	Persistent Kind = 1 + iota
	// Ephemeral: with its owner's session, in the log entry that ends the session (U1 ephemerals end with the session).
	Ephemeral
	// Container: some time after its last child is deleted, or after its creation if it has had no child (D5 TTLs and
	// containers).
	Container
	// Expiring: its TTL after its last change of data, but not while it has children (D5).
	Expiring
	// InLockDelay: its lock-delay after its owner's session has expired. The entry was ephemeral before, and has no
	// owner (H2 lock-delay).
	InLockDelay
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
	case InLockDelay:
		return "lock-delay"
	default:
		return "unknown"
	}
}

// Stat describes an entry, except its data.
type Stat struct {
	// Created is the stamp of the entry's creation, and its fencing token (H1 fencing tokens). Modified is the stamp of
	// the last change of data, ChildrenModified of the last creation or removal of a child.
	Created, Modified, ChildrenModified Stamp
	// CreatedAt and ModifiedAt are the leader's wall-clock times of these changes; for people only.
	CreatedAt, ModifiedAt time.Time
	// Version counts the changes of the data, ACLVersion the changes of the access list, from 0.
	Version, ACLVersion int64
	// ChildrenVersion counts the creations and removals of children (D4 sequence numbers).
	ChildrenVersion int64
	// Owner is the session of an ephemeral; 0 for other entries.
	Owner uint64
	// Bytes is the length of the data. Children counts the direct children.
	Bytes, Children int
	Kind            Kind
	// Due is the time on the log clock when the entry ends by itself (D3 log clock); 0 for never, and while it has
	// children.
	Due time.Duration
	// Remaining is the time until Due, by the log clock of the node that answered. The node's log clock may be up to a
	// minute late, so Remaining may be that much too long. Remaining is 0 without Due, in the results of writes, and in
	// the state.
	Remaining time.Duration
}
