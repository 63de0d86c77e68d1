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
	// Draining says that the node is being drained: it takes no opens and no resumes of global sessions.
	Draining bool
	// Cluster is the identity of the cluster, see [Key.Cluster]; 0 until the node knows it. Indexes and stamps count in
	// one cluster alone.
	Cluster uint64
}
