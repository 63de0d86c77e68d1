package zk

import (
	"math"

	"holdfast/tree"
	"holdfast/zk/jute"
)

// statOf returns a stat as ZooKeeper's clients know it. Counters are cut to 32 bits.
//
//nolint:gosec // the bits of stamps and ids, and counters that ZooKeeper cuts as well
func statOf(s tree.Stat) jute.Stat {
	return jute.Stat{
		Created: int64(s.Created), Modified: int64(s.Modified), ChildrenModified: int64(s.ChildrenModified),
		CreatedMS: s.CreatedAt.UnixMilli(), ModifiedMS: s.ModifiedAt.UnixMilli(),
		Version: int32(s.Version), ChildrenVersion: int32(s.ChildrenVersion), ACLVersion: int32(s.ACLVersion),
		Owner: ownerOf(s), DataLength: int32(s.Bytes), Children: int32(s.Children),
	}
}

// Owners that stand for kinds of entries in ZooKeeper.
const (
	containerOwner = math.MinInt64
	expiringOwner  = -1 << 56
)

// ownerOf returns the owner of an ephemeral, and for other kinds what ZooKeeper shows there. An expiring entry shows
// the time that it has left where ZooKeeper shows its TTL.
func ownerOf(s tree.Stat) int64 {
	switch s.Kind {
	case tree.Ephemeral:
		return int64(s.Owner) //nolint:gosec // the bits of an id
	case tree.Container:
		return containerOwner
	case tree.Expiring:
		return expiringOwner | s.Remaining.Milliseconds()
	case tree.Persistent, tree.Lingering:
		return 0
	default:
		return 0
	}
}

func grantsOf(acl tree.ACL) []jute.ACL {
	all := make([]jute.ACL, len(acl))
	for i, g := range acl {
		all[i] = jute.ACL{Perms: int32(g.Permissions), Scheme: g.Scheme, ID: g.ID}
	}
	return all
}
