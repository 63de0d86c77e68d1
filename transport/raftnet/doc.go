// Package raftnet is the network under Raft: a raft.StreamLayer that says who it is before Raft says anything.
//
// Raft itself takes any connection, so two clusters whose addresses were mixed up would vote in each other's elections.
// Here the dialler and the node that is dialled each send one greeting and check the other's:
//
//	byte  0..3   "HFRT"
//	byte  4      version, 1
//	byte  5      code: 0 a greeting; in an answer also 1 refused: other cluster, 2 refused: other version,
//	             3 refused: node number
//	byte  6      node number
//	byte  7      length of what follows
//	byte  8..    the cluster id, or why it is refused, in words
//
// After both, the connection is Raft's.
package raftnet
