package session

import (
	"math"
	"time"
)

// Hello opens a stream from a learner to the leader (T6).
type Hello struct {
	Node Node
	// Directory is the identity of the data directory that the node runs on, see [Member].
	Directory uint64
	// Incarnation counts the starts of the node's process on its data directory, Stream the streams of the process.
	// Together, in this order, they say which of two streams is newer.
	Incarnation, Stream uint64
	// LogVersion is the node's [LogVersion], 0 of a release before there was one.
	LogVersion uint32
}

// LogVersion is the newest form of log entries that this release reads: 1 has [SetCapacity], and [MoveSession] with the
// attachment that it names. A leader proposes only what the releases of all members read, as long as its clients ask
// for nothing that is new, so that a rolling update stops nobody.
const LogVersion = 1

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
	// Interval is the one at which the leader's rounds begin (R1). 0: a leader of a release that does not say.
	Interval time.Duration
	// Good is the newest good round (S4).
	Good uint64
	// Confirmed is c of S1: this stream's answers up to the one to this round are confirmed. 0: none.
	Confirmed uint64
	// NotTaken are the sessions in newly confirmed answers that were not taken (S1).
	NotTaken []ID
	// Attachment is the highest that the leader has applied (M3).
	Attachment uint64
	// VotesFrom is the entry as of which the node that gets the heartbeat votes, once it has applied it: every other
	// voter that is not lost has (R6). [NoVote]: it does not vote yet. 0: a leader of a release that does not say.
	VotesFrom uint64
	// Compare is an index that the leader has applied: the digest there is reported (D1). 0: none.
	Compare uint64
	// Compared is what the newest comparison has found (D2). It counts every answer on this stream that came before the
	// heartbeat.
	Compared Comparison
}

// NoVote is the [Heartbeat.VotesFrom] of a node that does not vote yet.
const NoVote = math.MaxUint64

// Answer is one chunk of a learner's part of a round (R2, T3).
type Answer struct {
	Round uint64
	// Term is what the learner's node read after the heartbeat arrived.
	Term uint64
	// Attachment is h of R2: the highest that the learner has applied, read after its touch table was taken.
	Attachment uint64
	// VouchAge is how long the learner's process has run without a stall (E1), ProcessAge how long it has run at all.
	VouchAge, ProcessAge time.Duration
	// Credit is what the process's stalls are credited with in total, see [Stalls].
	Credit time.Duration
	// Touches are packed by [AppendTouches].
	Touches []byte
	// Last is set on the answer's last chunk.
	Last bool
	// Applied is the newest entry that the learner's node has applied (R6).
	Applied uint64
	// Digest is what the learner's state has at the index that is compared (D1); its Index is 0 while it has nothing
	// there.
	Digest StateDigest
}

// LeaderMessage is what a leader says on a stream: one of its fields.
type LeaderMessage struct {
	Welcome   *Welcome
	Heartbeat *Heartbeat
	Reply     *Reply
}

// Welcome answers a [Hello].
type Welcome struct {
	Term   uint64
	Leader Node
}

// LearnerMessage is what a learner says on a stream after its [Hello]: one of its fields.
type LearnerMessage struct {
	Answer  *Answer
	Request *Request
}
