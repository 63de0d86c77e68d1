package session

import "time"

// Hello opens a stream from a learner to the leader (T6).
type Hello struct {
	Node Node
	// Directory is the identity of the data directory that the node runs on, see [Member].
	Directory uint64
	// Incarnation counts the starts of the node's process on its data directory, Stream the streams of the process.
	// Together, in this order, they say which of two streams is newer.
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
	// Good is the newest good round (S4).
	Good uint64
	// Confirmed is c of S1: this stream's answers up to the one to this round are confirmed. 0: none.
	Confirmed uint64
	// NotTaken are the sessions in newly confirmed answers that were not taken (S1).
	NotTaken []ID
	// Attachment is the highest that the leader has applied (M3).
	Attachment uint64
}

// Answer is one chunk of a learner's part of a round (R2, T3).
type Answer struct {
	Round uint64
	// Term is what the learner's node read after the heartbeat arrived.
	Term uint64
	// Attachment is h of R2: the highest that the learner has applied, read after its touch table was taken.
	Attachment uint64
	// VouchAge is how long the learner can vouch for already (E1).
	VouchAge time.Duration
	// Touches are packed by [AppendTouches].
	Touches []byte
	// Last is set on the answer's last chunk.
	Last bool
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
