package session

import (
	"time"

	"holdfast/tree"
)

// The messages of a Forward stream, on which a node sends its clients' writes to the leader of one term (W1 path of a
// write).

const (
	// MaxForwardBytes bounds the bytes of commands in a message. A message with a single command may be larger.
	MaxForwardBytes = 1 << 20
	// MaxCommandBytes bounds one command of the tree in the form of the log: the largest request of a client with a
	// will, the principals that the node has verified, and the overhead of the form; in bytes.
	MaxCommandBytes = 3 << 19
)

// ForwardHello opens a Forward stream.
type ForwardHello struct {
	Node Node
	// Incarnation is the same as in the node's [Hello]. The leader accepts writes of a process whose Follow stream it
	// has.
	Incarnation uint64
	// Term is the term of the leader that the node follows.
	Term uint64
}

// ForwardMessage is a node's message after its [ForwardHello]: exactly one field is set.
type ForwardMessage struct {
	// Writes are 1 to [MaxPeerBatch]. The leader processes them in this order.
	Writes []ForwardedWrite
	// Acknowledged are results that the node's clients have received (X3 kept results): 1 to [MaxPeerBatch].
	Acknowledged []Acknowledged
}

// ForwardedWrite is a write that is ready for the log. The leader does not decode it (W2 the state decides).
type ForwardedWrite struct {
	// Command is a command of the log: 1 to [MaxCommandBytes].
	Command []byte
	// Weight is the amount of work of its entry (U2 weight); 1 or more.
	Weight uint32
	// Session and Number identify the write, for refusals.
	Session ID
	Number  uint64
	// Connection is the node's number of the connection from which the write comes, see [Source].
	Connection uint64
	// Principal is the owner of the memory that the write uses, see [tree.ShareNumber].
	Principal uint64
	// Trace is the write's place in a trace, nil without one.
	Trace *Trace
}

// Source is the origin of a write: a connection of a node. Sources share the way to the log, however many writes each
// has waiting. The connections of a principal, at whatever nodes, share the principal's part of the memory. The zero
// value is the leader's node itself.
type Source struct {
	Node       Node
	Connection uint64
	// Principal is the write's [ForwardedWrite.Principal].
	Principal uint64
}

// EntryBytes bounds the bytes of commands in a log entry. An entry with a single command may be larger.
const EntryBytes = 256 << 10

// WriteCost returns the cost of a write for its source, in bytes: a weight that fills a log entry (U2) costs as much as
// the bytes that do.
func WriteCost(bytes, weight int) int { return bytes + weight*EntryBytes/tree.MaxWeight }

// Acknowledged says that a session has received all results up to a number.
type Acknowledged struct {
	Session ID
	UpTo    uint64
}

// WriteRefusal names a write that the leader has certainly not appended, and will not append (W4 answers from applied
// entries).
type WriteRefusal struct {
	Session ID
	Number  uint64
	Why     WriteRefusalReason
	// RetryAfter is the minimum time to wait before the write is sent again: 0 when the leader cannot say, at most
	// [MaxRetryAfter].
	RetryAfter time.Duration
}

// WriteRefusalReason is the reason why a leader did not append a write.
type WriteRefusalReason uint8

// The reasons.
const (
	// WriteBusy: the proposer's queue is full (W7 size bounds).
	WriteBusy WriteRefusalReason = 1 + iota
	// WriteGap: an earlier write of the session was refused on the same stream (X2 writers).
	WriteGap
	// WriteNotLeader: the leader's term has ended.
	WriteNotLeader
	// WriteStopping: the leader's node is stopping.
	WriteStopping
)

// String returns the reason in lower case.
func (r WriteRefusalReason) String() string {
	switch r {
	case WriteBusy:
		return "busy"
	case WriteGap:
		return "gap"
	case WriteNotLeader:
		return "not leader"
	case WriteStopping:
		return "stopping"
	default:
		return "unknown"
	}
}
