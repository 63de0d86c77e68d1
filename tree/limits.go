package tree

import "time"

// Limits that never change, because replicas of all releases must agree on them.
const (
	// MaxRequest is the largest size of a request in bytes: ZooKeeper's default for a frame.
	MaxRequest = 1<<20 - 1
	// MaxOps is the largest number of operations and conditions of a transaction.
	MaxOps = 10_000
	// MaxLockDelay is the longest lock-delay (H2 lock-delay).
	MaxLockDelay = time.Minute
	// MinTTL and MaxTTL bound a TTL. MaxTTL fits into the 40 bits that ZooKeeper has for a TTL.
	MinTTL = time.Millisecond
	MaxTTL = (1<<40 - 1) * time.Millisecond
	// ContainerIdle is the time that a container exists after its last child has gone, NewContainerIdle the time for a
	// container that never had a child (D5 TTLs and containers).
	ContainerIdle    = time.Minute
	NewContainerIdle = 5 * time.Minute
	// MaxGrants is the largest number of grants in an access list, MaxACL the largest number of their bytes.
	MaxGrants = 64
	MaxACL    = 16 << 10
)

// Bounds of limits that the log may set: a later release may set different limits.
const (
	// MaxEphemerals bounds [Limits.Ephemerals]: the removal of this many ephemerals weighs [MaxOwnedWeight] (U2
	// weight).
	MaxEphemerals = MaxOwnedWeight / removalWeight
	// MaxChildren bounds [Limits.Children]: ZooKeeper's clients read the number as a signed 32-bit integer.
	MaxChildren = 1<<31 - 1
	// MinBytes and MaxBytes bound [Limits.Bytes]; DefaultBytes is its default.
	MinBytes     = 64 << 20
	DefaultBytes = 2 << 30
	MaxBytes     = 1 << 40
)

// Limits are the bounds that all replicas share through the log (W8 feature level): bounds of the leader's release, and
// the leader's settings max_tree_bytes and quotas_by_acl.
type Limits struct {
	// Ephemerals bounds the ephemerals of one session (U2): 1 to [MaxEphemerals].
	Ephemerals int
	// Children bounds the children of one entry: 1 to [MaxChildren].
	Children int
	// Bytes bounds the memory of all entries, as the tree counts it: 1 or more.
	Bytes int64
	// OpenQuotas lets every client write quotas that the access lists permit (P3 quotas). Otherwise only [Super] may
	// write quotas. A quota of 0 on the root stops all clients.
	OpenQuotas bool
}

// DefaultLimits returns the bounds of this release. Only a bug in a program makes 10,000,000 children of one entry:
// ZooKeeper's clients could not list a tenth of them.
func DefaultLimits() Limits {
	return Limits{Ephemerals: MaxEphemerals, Children: 10_000_000, Bytes: DefaultBytes}
}

// Check returns a [FieldError] if a field is out of its bounds.
func (l Limits) Check() error {
	switch {
	case l.Ephemerals < 1 || l.Ephemerals > MaxEphemerals:
		return wrong("max_ephemerals", "is %d: must be 1 to %d", l.Ephemerals, MaxEphemerals)
	case l.Children < 1 || l.Children > MaxChildren:
		return wrong("max_children", "is %d: must be 1 to %d", l.Children, MaxChildren)
	case l.Bytes < 1 || l.Bytes > MaxBytes:
		return wrong("max_tree_bytes", "is %d: must be 1 to %d", l.Bytes, int64(MaxBytes))
	}
	return nil
}
