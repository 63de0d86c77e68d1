package session

// Mode is what a node can do for its clients (N1).
type Mode uint8

// Modes.
const (
	// ModeReadWrite: the node hears of a leader that has a quorum. It serves linearizable reads, and takes writes.
	ModeReadWrite Mode = iota + 1
	// ModeReadOnly: the node hears of no such leader, and serves reads of its applied state to clients that allow it.
	ModeReadOnly
	// ModeNoLeader: the node hears of no such leader, and serves no reads either.
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
	// Index is the index up to which the node has applied the log.
	Index uint64
	// FeatureLevel is what the whole cluster can do (W8): 0 sessions, 1 the tree too, 2 acts of operators too.
	FeatureLevel uint32
	// ComingLevel is the one that the cluster has not, and gets as soon as its members have met (W8); 0 for none.
	ComingLevel uint32
	// Draining says that the node is being drained: it takes no opens and no resumes of global sessions.
	Draining bool
}
