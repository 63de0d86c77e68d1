package session

import (
	"math"
	"time"
)

// Hello opens a stream from a learner to the leader (T6 newest stream only).
type Hello struct {
	Node Node
	// Directory is the identity of the node's data directory, see [Member].
	Directory uint64
	// Incarnation counts the starts of the node's process on its data directory, Stream the streams of the process. Of
	// two streams of a node, the newer has the higher pair (Incarnation, Stream).
	Incarnation, Stream uint64
}

// Newer reports whether h is a newer stream of its node than o.
func (h Hello) Newer(o Hello) bool {
	if h.Incarnation != o.Incarnation {
		return h.Incarnation > o.Incarnation
	}
	return h.Stream > o.Stream
}

// Heartbeat is the leader's part of a round.
type Heartbeat struct {
	Round uint64
	// Interval is the interval between the beginnings of the leader's rounds (R1 rounds).
	Interval time.Duration
	// Good is the newest good round (S4 jeopardy).
	Good uint64
	// Confirmed is c of S1: a round. This stream's answers up to the answer to that round are confirmed. 0 means none.
	Confirmed uint64
	// Processed is p of S1: a round. This stream's answers up to the answer to that round are processed. 0 means none.
	Processed uint64
	// RejectedTouches are the sessions in newly processed answers whose touches the leader ignored (S1 confirmed
	// touches).
	RejectedTouches []ID
	// Attachment is the highest attachment that the leader has applied (M3 served in the leader's term).
	Attachment uint64
	// VotesFrom is an index: the receiving node may vote once it has applied that entry, because every other voter that
	// is not lost has applied it (R6 readiness). [NoVote] means that the node may not vote yet.
	VotesFrom uint64
	// Compare is an index that the leader has applied: answers report the digest at that index (C1 digest comparison).
	// 0 means none.
	Compare uint64
	// Compared is the outcome of the newest comparison (C2 a quorum decides). It includes every answer on this stream
	// that came before the heartbeat.
	Compared Comparison
	// Committed is an index that was committed when the leader sent the heartbeat (G6 stale nodes refuse).
	Committed uint64
	// AppliedElsewhere is the highest index that a voter other than the receiving node has reported as applied.
	AppliedElsewhere uint64
	// Excluded are the members to which no client is sent.
	Excluded Excluded
	// DisksFull makes every node refuse opens and writes of the tree: the voters with space on their disks are no
	// quorum (O5 full disks).
	DisksFull bool
	// Traced are entries in traces, at most [MaxTraced]: nothing depends on them.
	Traced []Traced
}

// NoVote is the [Heartbeat.VotesFrom] of a node that may not vote yet.
const NoVote = math.MaxUint64

// Answer is one chunk of a learner's part of a round (R2 heartbeat answers, T3 ordered streams).
type Answer struct {
	Round uint64
	// Term is the Raft term that the learner's node read after the heartbeat arrived.
	Term uint64
	// Attachment is h of R2: the highest attachment that the learner had applied after the swap of its touch table.
	Attachment uint64
	// StallAge is the time for which the learner's process has run since its last stall (E1 full timeout after a change
	// of leader), ProcessAge the time since its start.
	StallAge, ProcessAge time.Duration
	// Credit is the total credit of the process's stalls, see [Stalls].
	Credit time.Duration
	// Touches are packed by [AppendTouches].
	Touches []byte
	// Last is set on the answer's last chunk.
	Last bool
	// Applied is the index of the newest entry that the learner's node has applied (R6).
	Applied uint64
	// Digest is the learner's digest at [Heartbeat.Compare] (C1). Its Index is 0 while the learner has none there.
	Digest StateDigest
	// Draining says that the learner's node is being drained.
	Draining bool
	// FullDisk says that the disk of the learner's node is full (O5).
	FullDisk bool
}

// LeaderMessage is a leader's message on a stream: exactly one field is set.
type LeaderMessage struct {
	Welcome   *Welcome
	Heartbeat *Heartbeat
	// Replies are at most [MaxPeerBatch].
	Replies []Reply
}

// Welcome answers a [Hello].
type Welcome struct {
	Term   uint64
	Leader Node
}

// LearnerMessage is a learner's message on a stream after its [Hello]: exactly one field is set.
type LearnerMessage struct {
	Answer *Answer
	// Requests are at most [MaxPeerBatch]. The leader processes them in this order.
	Requests []Request
}
