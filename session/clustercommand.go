package session

import "holdfast/tree"

// The commands in this file are about the cluster as a whole; the commands about sessions are in command.go.

// ForgetRequests drops the request ids of opens up to an index (O2).
type ForgetRequests struct{ UpToIndex uint64 }

// Configure begins a leader's term (R5). The state machine takes Key if the cluster has none yet.
type Configure struct {
	Key   Key
	Nonce uint64
	// Level is the feature level of a cluster that c founds: 1 to [FeatureLevel] (W8). The level of a cluster that has
	// one stays. Limits are those of the tree from now on.
	Level  uint32
	Limits tree.Limits
}

// Tick is no command: an entry that has no other one moves the log clock on (D3). It is for the leader alone.
type Tick struct{}

// SetCapacity bounds what later opens and upgrades may add to the state (O4). Sessions above the bounds stay.
type SetCapacity struct{ Capacity Capacity }

// ClaimIDs moves a node's mark by Count, so that no session and no later claim ever gets the ids in between (O3, I7).
// The result is the first id; the others follow it. The state keeps nothing else of a claim.
type ClaimIDs struct {
	Node Node
	// MS is when the node received the request, in milliseconds since [Epoch].
	MS uint64
	// Count is 1 to [MaxClaim].
	Count uint32
}
