package session

// Mode is what a node can do for its clients (N1).
type Mode uint8

// Modes.
const (
	// ModeReadWrite: the node hears of a leader that has a quorum. Reads are linearizable, and writes are taken.
	ModeReadWrite Mode = iota + 1
	// ModeReadOnly: it hears of none, and serves reads of the state it has applied to clients that allow it.
	ModeReadOnly
	// ModeNoLeader: it hears of none, and serves no reads either.
	ModeNoLeader
)

// String returns the mode's name in lower case.
func (m Mode) String() string {
	switch m {
	case ModeReadWrite:
		return "read-write"
	case ModeReadOnly:
		return "read-only"
	case ModeNoLeader:
		return "no leader"
	default:
		return "unknown"
	}
}

// NodeState is what a node can do, and how much it knows.
type NodeState struct {
	Node Node
	Mode Mode
	// Index is up to where the node has applied the log.
	Index uint64
}

// ReadOptions are what a read allows, and demands. The zero value is a linearizable read.
type ReadOptions struct {
	// AllowReadOnly has a read-only node answer from the state it has applied (N3): what it shows is marked as applied.
	AllowReadOnly bool
	// Seen is the highest index that the client has seen: what it is served is not older (N4).
	Seen uint64
}
