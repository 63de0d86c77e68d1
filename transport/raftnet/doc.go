// Package raftnet is the network under Raft: a raft.StreamLayer that says who it is before Raft says anything.
//
// Raft itself takes any connection, so two clusters whose addresses were mixed up would vote in each other's elections.
// Here the dialler and the node that is dialled each send one greeting and check the other's:
//
//	byte  0..3   "HFRT"
//	byte  4      version, 2
//	byte  5      code: 0 a greeting; of the dialler also 5 to meet; in an answer also 1 refused: other cluster,
//	             2 refused: other version, 3 refused: node number, 4 the node takes no part yet
//	byte  6      node number
//	byte  7      length of what follows
//	byte  8..    the cluster id, or why it is refused, in words
//	8 bytes      the identity of the node's data directory, big-endian
//
// After both, the connection is Raft's. The dialler first compares the directory with the one that it expects at the
// address: a node whose directory was lost has forgotten its votes and its log, and must not be taken for the one it was.
// When the dialler wants to meet, each side then says one frame, 2 bytes of length and so many bytes, and both close.
//
// The decoder of Raft's library sets the length of a time aside before a byte of it has come. So what a connection brings is
// scanned first, and ends where a part is longer, or stands deeper, than Raft's do: see [MaxField], [MaxItems] and [MaxMessage].
// That bounds what bytes cost, and is no defence against a node that means harm: nodes of a cluster trust each other, and one
// could end another with an entry that says it is a configuration, or win its vote.
package raftnet
