package session

import (
	"time"

	"holdfast/tree"
)

// The messages of a Forward stream, on which a node sends its clients' writes to the leader of one term (W1).

const (
	// MaxForwardBytes bounds the commands of one message, unless it has one command alone; in bytes.
	MaxForwardBytes = 1 << 20
	// MaxCommandBytes bounds one command of the tree in the form of the log: the largest request of a client with a will,
	// whom the node vouches for, and what the form adds; in bytes.
	MaxCommandBytes = 3 << 19
)

// ForwardHello opens a Forward stream.
type ForwardHello struct {
	Node Node
	// Incarnation is that of the node's [Hello]. The leader takes writes of a process whose Follow stream it has.
	Incarnation uint64
	// Term is that of the leader whom the node follows.
	Term uint64
}

// ForwardMessage is a node's message after its [ForwardHello]: exactly one field is set.
type ForwardMessage struct {
	// Writes are 1 to [MaxPeerBatch]. The leader takes them in this order.
	Writes []ForwardedWrite
	// Acknowledged are results that the node's clients have in hand (X3): 1 to [MaxPeerBatch].
	Acknowledged []Acknowledged
}

// ForwardedWrite is a write that is ready for the log. The leader does not decode it (W2).
type ForwardedWrite struct {
	// Command is a command of the log: 1 to [MaxCommandBytes].
	Command []byte
	// Weight is how much work its entry makes (U2); 1 or more.
	Weight uint32
	// Session and Number are the write's, for refusals.
	Session ID
	Number  uint64
	// Connection is the node's number of the connection that the write comes from, see [Source].
	Connection uint64
	// Principal is whose room the write takes, see [tree.ShareNumber].
	Principal uint64
	// Trace is the write's place in a trace, nil if it is in none.
	Trace *Trace
}

// Source is where a write comes from: a connection of a node. Sources share the way to the log, whatever each has
// waiting. The connections of a principal, at whatever nodes, share its part of the room. The zero value is the leader's
// node itself.
type Source struct {
	Node       Node
	Connection uint64
	// Principal is that of the write's [ForwardedWrite].
	Principal uint64
}

// EntryBytes is how many bytes of commands a log entry carries, unless it carries one larger command alone.
const EntryBytes = 256 << 10

// WriteCost returns what a write costs its source, in bytes: a weight that fills a log entry (U2) costs as much as the
// bytes that do.
func WriteCost(bytes, weight int) int { return bytes + weight*EntryBytes/tree.MaxWeight }

// Acknowledged says that a session has all results up to a number in hand.
type Acknowledged struct {
	Session ID
	UpTo    uint64
}

// WriteRefusal names a write that the leader has certainly not appended, and will not append (W4).
type WriteRefusal struct {
	Session ID
	Number  uint64
	Why     WriteRefusalReason
	// RetryAfter is the least time to wait before the write is sent again: 0 when the leader cannot say, at most
	// [MaxRetryAfter].
	RetryAfter time.Duration
}

// WriteRefusalReason is why a leader did not append a write.
type WriteRefusalReason uint8

// The reasons.
const (
	// WriteBusy: the proposer's queue is full (W7).
	WriteBusy WriteRefusalReason = 1 + iota
	// WriteGap: an earlier write of the session was refused on the same stream (X2).
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
