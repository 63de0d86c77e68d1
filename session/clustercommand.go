package session

import "holdfast/tree"

// The commands in this file concern the cluster as a whole; the commands about sessions are in command.go.

// ForgetRequests drops the request ids of opens up to an index (O2 idempotent opens).
type ForgetRequests struct{ UpToIndex uint64 }

// Configure begins a leader's term (R5 start of a tracker). The state machine adopts Key if the cluster has none yet.
type Configure struct {
	Key   Key
	Nonce uint64
	// Level is the feature level of a cluster that c founds: 1 to [FeatureLevel] (W8 feature level). An existing
	// cluster keeps its level. Limits are the limits of the tree from now on.
	Level  uint32
	Limits tree.Limits
}

// Tick changes no state by itself: it is for an entry without another command, which advances the log clock (D3 log
// clock). Only the leader uses it.
type Tick struct{}

// SetCapacity bounds what later opens and upgrades may add to the state (O4 state limits). Sessions above the bounds
// stay.
type SetCapacity struct{ Capacity Capacity }

// ClaimIDs moves a node's mark by Count, so that no session and no later claim ever gets the ids in between (O3 id
// blocks, I7 ids are never reused). The result is the first id; the others follow it. The state keeps nothing else of a
// claim.
type ClaimIDs struct {
	Node Node
	// MS is when the node received the request, in milliseconds since [Epoch].
	MS uint64
	// Count is 1 to [MaxClaim].
	Count uint32
}
