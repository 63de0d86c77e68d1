package session

import "fmt"

// FeatureLevel is the newest feature level that this release has (W8): 1 has the tree.
const FeatureLevel = 1

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
