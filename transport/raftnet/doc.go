// Package raftnet is the network under Raft: a raft.StreamLayer that says who it is before Raft says anything.
//
// Raft itself takes any connection, so two clusters whose addresses were mixed up would vote in each other's elections.
// Here the dialler and the node that is dialled each send one greeting and check the other's:
//
//	byte  0..3   "HFRT"
//	byte  4      version: 3, or 2 to and from a node of the release before, which refuses 3 and is greeted once more
//	byte  5      code: 0 a greeting; of the dialler also 5 to meet; in an answer also 1 refused: other cluster,
//	             2 refused: other version, 3 refused: node number, 4 the node takes no part yet,
//	             7 refused: a setting, 8 refused: no node of this cluster
//	byte  6      node number
//	byte  7      length of what follows
//	byte  8..    the cluster id, or why it is refused, in words
//	8 bytes      the identity of the node's data directory, big-endian
//
// After both, the connection is Raft's. The dialler first compares the directory with the one that it expects at the
// address: a node whose directory was lost has forgotten its votes and its log, and must not be taken for the one it
// was. When the dialler wants to meet, each side then says one frame, 2 bytes of length and so many bytes, and both
// close.
//
// A request may take as long as its bytes move. Raft has one deadline for all of it, which a batch of entries or a
// snapshot does not meet over a thin link, however often it is tried. The side that was dialled knows what has come:
// while a request for entries or of a snapshot is under way it sends the byte 0xc1, which no answer begins with,
// every fifth of the timeout in which something has come, or if all has come and the answer has not been given. For
// the dialler each puts the deadline off. So a node that is dead, or is no longer heard of, is noticed one timeout
// later, in whatever buffers bytes still lie. Most requests are answered before the first such byte. Version 2 of the
// greeting has no such bytes, and requests have Raft's deadline.
//
// Reports, and not what the dialler's kernel says: a kernel takes megabytes that leave it a minute later, says how
// much is left on some systems alone, knows nothing of a proxy between, and nothing of a follower that has everything
// and restores it.
//
// The decoder of Raft's library sets the length of a time aside before a byte of it has come. So what a connection
// brings is scanned first, and ends where a part is longer, or stands deeper, than Raft's do: see [MaxField],
// [MaxItems] and [MaxMessage]. A connection has a place for its handshake, and then one of its node. Strangers who
// flood the port take each other's places ([lobby], [seats]), so that a node always finds one. A connection that was
// accepted ends when nothing comes for 10 s after the greeting, or for 10 minutes between two requests. The node that
// dialled dials anew when it has not used a connection for half as long.
//
// That bounds what bytes cost. What the messages then say is checked before Raft acts on it ([Checked]): terms and
// indexes that nobody can have come to, entries that do not follow each other or cannot be read, configurations that
// Raft would panic at. That ends what is absurd, and is no defence against a node that means harm: nodes of a cluster
// trust each other, and one could win another's vote, or replace what is not committed in its log.
package raftnet
