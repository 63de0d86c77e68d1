package session

import "fmt"

// FeatureLevel is the newest feature level that this release has (W8).
const FeatureLevel = AdminLevel

// Feature levels.
const (
	// TreeLevel has the tree.
	TreeLevel = 1
	// AdminLevel has operators who end sessions, and certificates that tell a session's story.
	AdminLevel = 2
)

// LevelError is [ErrLevel]: what an operator asked for needs a higher feature level than the cluster has.
type LevelError struct {
	// What was asked for.
	What string
	// Has is the cluster's feature level, Needs the one that has What.
	Has, Needs uint32
}

func (e *LevelError) Error() string {
	return fmt.Sprintf("%s needs feature level %d, and the cluster has level %d: once all nodes run this release, "+
		"holdfast cluster raise %d", e.What, e.Needs, e.Has, e.Needs)
}

// Is makes e an [ErrLevel].
func (e *LevelError) Is(target error) bool { return target == ErrLevel }

// Offer is the newest feature level that a member can have, as the leader knows it. It is 0 while the member is not
// connected.
type Offer struct {
	Node      Node
	Level     uint32
	Connected bool
}

// FeatureLevelError refuses a node whose release lacks something that the cluster has (W8 of the tree).
type FeatureLevelError struct {
	Node Node
	// Offers is the newest [FeatureLevel] that the node can have, Needs the cluster's.
	Offers, Needs uint32
}

func (e *FeatureLevelError) Error() string {
	return fmt.Sprintf("node %d can have feature level %d, and the cluster has level %d for good: run the release of the "+
		"other nodes on it", e.Node, e.Offers, e.Needs)
}
