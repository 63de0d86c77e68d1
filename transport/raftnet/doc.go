// Package raftnet is the network under Raft: a raft.StreamLayer on which both ends of a connection identify themselves
// before Raft uses it.
//
// Raft itself takes any connection, so two clusters whose addresses were mixed up would vote in each other's elections.
// Here the dialler and the dialled node each send one greeting and check the other's:
//
//	byte  0..3   "HFRT"
//	byte  4      format: 1; a node refuses every other number
//	byte  5      code: 0 a greeting; of the dialler also 5 to meet, 9 to ask; in an answer also 1 refused: other cluster,
//	             2 refused: other format, 3 refused: node number, 4 the node takes no part in Raft yet,
//	             7 refused: a setting, 8 refused: no node of this cluster
//	byte  6      node number
//	byte  7      length of the text
//	byte  8..    the text: the cluster id, or the reason of the refusal, which ends here
//	8 bytes      the identity of the node's data directory, big-endian
//	32 bytes     drawn at random for this connection
//
// The dialled side goes on at once, and the dialler after it has read that, without an answer:
//
//	8, 8 bytes   how far this node knows that the directory of the other side had come: a term, an entry of it (J6)
//	32 bytes     the public half of the key of this side's directory; the identity is a prefix of its hash
//	64 bytes     the Ed25519 signature of which side this is, and of everything on the connection so far in the order
//	             dialler's greeting, dialled side's greeting, the dialled side's 16 bytes, the dialler's
//
// So a directory is proven and not told: whoever knows its identity, which is no secret, cannot pose as its node. A node
// that is told of more than its directory has is an older copy of itself, and goes no further.
//
// After that the connection is Raft's. The dialler compares the directory with the one that it expects at the address,
// before it proves its own: a node that has lost its directory has forgotten its votes and its log, and must not be taken
// for the earlier node. When the dialler wants to meet or to ask, each side then sends one frame, 2 bytes of length and so
// many bytes, and both close. A node meets others also while it waits
// for admission, or for what they know of its directory.
// Head and text, which are bytes 0 to 7 and what byte 7 counts, stay the same in every format: so nodes of two formats
// can tell each other why they refuse.
//
// A request may take as long as its bytes move. Raft has one deadline for a whole request. Over a thin link a batch of
// entries or a snapshot misses that deadline, however often it is tried. Only the dialled side knows what has arrived.
// While a request for entries or of a snapshot is under way, it sends the byte 0xc1, with which no answer begins: in
// every fifth of the timeout in which something has arrived, or after everything has arrived and until the answer is
// given. Each report extends the dialler's deadline. So a node that is dead or cut off is noticed one timeout later, in
// whatever buffers bytes still lie. Most requests are answered before the first report.
//
// The dialler's kernel cannot replace the reports. A kernel takes megabytes that leave it a minute later, and only some
// systems tell how much is left. It knows nothing of a proxy in between, and nothing of a follower that has received
// everything and restores it.
//
// The decoder of Raft's library allocates the announced length of a time before a byte of it has arrived. So a scanner
// sees all bytes first, and ends the connection where a field is longer, or nested deeper, than Raft's are: see
// [MaxField], [MaxItems] and [MaxMessage]. The number of connections is bounded, in their handshakes and of each node.
// In a flood of strangers, strangers evict each other ([handshakes], [nodeConns]), so that a node always finds room. An
// accepted connection ends when nothing comes for 10 s after the greeting, or for 10 minutes between two requests. The
// node that dialled dials again when it has not used a connection for half as long.
//
// These rules bound the cost of bytes. [Checked] checks the content of messages before Raft acts on it: it refuses
// terms and indexes that no node can have reached, entries that do not follow each other or cannot be read, and
// configurations at which Raft would panic. That stops absurd messages, and is no defence against a malicious node:
// nodes of a cluster trust each other, and a node could win another's vote, or replace uncommitted entries in its log.
package raftnet
