package tree

import "time"

// Limits that never change, because replicas of all releases must agree on them.
const (
	// MaxRequest is the size of a request in bytes, at most: ZooKeeper's default for a frame.
	MaxRequest = 1<<20 - 1
	// MaxOps is the number of operations and conditions of a transaction, at most.
	MaxOps = 10_000
	// MaxLinger is the longest lock-delay (F2).
	MaxLinger = time.Minute
	// MinTTL is the shortest TTL, MaxTTL the longest: what fits into the 40 bits that ZooKeeper has for it.
	MinTTL = time.Millisecond
	MaxTTL = (1<<40 - 1) * time.Millisecond
	// ContainerIdle is how long a container lasts after its last child has gone, NewContainerIdle how long one lasts
	// that never had a child (D5).
	ContainerIdle    = time.Minute
	NewContainerIdle = 5 * time.Minute
	// MaxGrants is the number of grants in an access list, at most, MaxACL their bytes.
	MaxGrants = 64
	MaxACL    = 16 << 10
)

// Bounds of what the log may set: a later release may have other limits than this one.
const (
	// MostEphemerals bounds [Limits.Ephemerals]: the removal of so many weighs [MaxOwnedWeight] (U2).
	MostEphemerals = MaxOwnedWeight / removalWeight
	// MostChildren bounds [Limits.Children]: ZooKeeper's clients read the number as a signed one of 32 bits.
	MostChildren = 1<<31 - 1
	// LeastBytes, DefaultBytes and MostBytes bound [Limits.Bytes], and are its default.
	LeastBytes   = 64 << 20
	DefaultBytes = 2 << 30
	MostBytes    = 1 << 40
)

// Limits are the bounds that all replicas share through the log (W8): those of the leader's release, and its settings
// max_tree_bytes and open_quotas.
type Limits struct {
	// Ephemerals bounds those of one session (U2): 1 to [MostEphemerals].
	Ephemerals int
	// Children bounds the entries just below one: 1 to [MostChildren].
	Children int
	// Bytes bounds the memory that all entries take, as the tree counts it: 1 or more.
	Bytes int64
	// OpenQuotas lets everybody write quotas whom the access lists allow it (P3). Otherwise only [Super] may. A quota of
	// 0 on the root stops everybody.
	OpenQuotas bool
}

// DefaultLimits returns the bounds of this release. 10,000,000 children below one entry come of an error in a program:
// ZooKeeper's clients could not list a tenth of them.
func DefaultLimits() Limits {
	return Limits{Ephemerals: MostEphemerals, Children: 10_000_000, Bytes: DefaultBytes}
}

// Check returns a [FieldError] unless every field is within its bounds.
func (l Limits) Check() error {
	switch {
	case l.Ephemerals < 1 || l.Ephemerals > MostEphemerals:
		return wrong("max_ephemerals", "is %d: must be 1 to %d", l.Ephemerals, MostEphemerals)
	case l.Children < 1 || l.Children > MostChildren:
		return wrong("max_children", "is %d: must be 1 to %d", l.Children, MostChildren)
	case l.Bytes < 1 || l.Bytes > MostBytes:
		return wrong("max_tree_bytes", "is %d: must be 1 to %d", l.Bytes, int64(MostBytes))
	}
	return nil
}
