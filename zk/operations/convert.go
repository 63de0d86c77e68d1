package operations

import (
	"holdfast/tree"
	"holdfast/zk/jute"
)

// statOf converts a stat for ZooKeeper's clients. Counters are cut to 32 bits.
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

// ownerOf returns the owner of an ephemeral, and 0 for other kinds.
func ownerOf(s tree.Stat) int64 {
	if s.Kind != tree.Ephemeral {
		return 0
	}
	return int64(s.Owner) //nolint:gosec // the bits of an id
}

func grantsOf(acl tree.ACL) []jute.ACL {
	all := make([]jute.ACL, len(acl))
	for i, g := range acl {
		all[i] = jute.ACL{Perms: int32(g.Permissions), Scheme: g.Scheme, ID: g.ID}
	}
	return all
}
