// Package raftnet is the network under Raft: a raft.StreamLayer on which both ends of a connection identify themselves
// before Raft uses it.
//
// Raft itself accepts any connection, so two clusters with mixed-up addresses would vote in each other's elections.
// Here the dialler and the dialled node each send one greeting and check the other's:
//
//	byte  0..3   "HFRT"
//	byte  4      format: 1; a node refuses every other number
//	byte  5      code: 0 a greeting; of the dialler also 5 to meet, 9 to ask; in an answer also 1 refused: other cluster,
//	             2 refused: other format, 3 refused: node number, 4 the node takes no part in Raft yet,
//	             7 refused: a setting, 8 refused: no node of this cluster, 10 refused: another number in the
//	             certificate, 11 refused: without TLS
//	byte  6      node number
//	byte  7      length of the text
//	byte  8..    the text: the cluster id, or the reason of the refusal, which ends here
//	8 bytes      the identity of the node's data directory, big-endian
//	32 bytes     drawn at random for this connection
//
// Without waiting for an answer, the dialled side then sends the following, and the dialler does so after reading it:
//
//	8, 8 bytes   the newest position of the other side's directory that this node knows: a term, an entry of it (J6)
//	32 bytes     the public half of the key of this side's directory; the identity is a prefix of its hash
//	64 bytes     the Ed25519 signature of which side this is, and of everything on the connection so far in the order
//	             dialler's greeting, dialled side's greeting, the dialled side's 16 bytes, the dialler's
//
// So a directory is proven, not only claimed: its identity is no secret, and knowing it does not permit posing as its
// node. A node that learns of a position ahead of its own directory runs on an older copy of the directory, and stops
// here.
//
// After that the connection is Raft's. The dialler compares the directory with the expected one before it proves its
// own: a node that has lost its directory has forgotten its votes and its log, and must not pass for the earlier node.
// When the dialler wants to meet or to ask, each side then sends one frame, 2 bytes of length and as many bytes, and
// both close. A node also meets others while it waits for admission, or for their knowledge of its directory. Head and
// text, which are bytes 0 to 7 and as many bytes as byte 7 says, stay the same in every format, so that nodes of two
// formats can exchange the reason of a refusal.
//
// A request may take as long as its bytes move. Raft has one deadline for a whole request. Over a slow link a batch of
// entries or a snapshot misses that deadline, however often Raft retries. Only the dialled side knows which bytes have
// arrived. While a request for entries or of a snapshot is in progress, the dialled side sends reports, the byte 0xc1,
// with which no answer begins: in every fifth of the timeout in which bytes have arrived, and after the last byte until
// the answer. Each report extends the dialler's deadline. So a dead or cut-off node is noticed one timeout later,
// whatever buffers still hold bytes. Most requests are answered before the first report.
//
// The dialler's kernel cannot replace the reports. A kernel accepts megabytes that leave it a minute later, and only
// some systems report how much is left. The kernel knows nothing of a proxy in between, or of a follower that has
// received everything and restores it.
//
// The decoder of Raft's library allocates the announced length of a time before any byte of it has arrived. So a
// scanner sees all bytes first, and ends the connection where a field is longer, or nested deeper, than Raft's fields
// are: see [MaxField], [MaxItems] and [MaxMessage]. The number of connections is bounded, both of those in their
// handshakes and of those of each node. In a flood of connections from attackers, these evict each other ([handshakes],
// [nodeConns]), so that a node always finds a place. An accepted connection ends when no byte arrives for 10 s after
// the greeting, or for 10 minutes between two requests. The dialler renews a connection that it has not used for half
// as long.
//
// These rules bound the cost of bytes. [Checked] checks the content of messages before Raft acts on it: it refuses
// terms and indexes that no node can have reached, entries that do not follow each other or cannot be decoded, and
// configurations at which Raft would panic. That stops absurd messages, and is no defence against a malicious node:
// nodes of a cluster trust each other, and a node could win another's vote, or replace uncommitted entries in its log.
package raftnet
