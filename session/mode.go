package session

// Mode is a node's ability to serve its clients (N1 node mode).
type Mode uint8

// Modes.
const (
	// ModeReadWrite: the node knows a leader that has a quorum. It serves linearizable reads, and accepts writes.
	ModeReadWrite Mode = iota + 1
	// ModeReadOnly: the node knows no such leader, and serves reads of its applied state to clients that allow it.
	ModeReadOnly
	// ModeNoLeader: the node knows no such leader, and serves no reads either.
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

// NodeState is a node's mode and progress.
type NodeState struct {
	Node Node
	Mode Mode
	// Index is the index up to which the node has applied the log.
	Index uint64
	// Draining says that the node is being drained: it refuses opens and resumes of global sessions.
	Draining bool
	// Cluster is the identity of the cluster, see [Key.Cluster]; 0 until the node knows it. Indexes and stamps count in
	// one cluster alone.
	Cluster uint64
}
