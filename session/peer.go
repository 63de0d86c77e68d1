package session

import (
	"math"
	"time"
)

// Hello opens a stream from a learner to the leader (T6).
type Hello struct {
	Node Node
	// Directory is the identity of the node's data directory, see [Member].
	Directory uint64
	// Incarnation counts the starts of the node's process on its data directory, Stream the streams of the process. Of
	// two streams of a node, the newer has the higher pair (Incarnation, Stream).
	Incarnation, Stream uint64
	// LogVersion is the node's [LogVersion], PeerVersion its [PeerVersion], each 0 for a release without one.
	LogVersion, PeerVersion uint32
	// FeatureLevel is what the node's release can do (W8), 0 for a release without one.
	FeatureLevel uint32
}

// PeerVersion is the newest form of messages between nodes that this release reads. Version 1 has many requests or
// replies in one message, and requests to resume many sessions ([ResumesRequest]). Version 2 has the requests of
// operators. A node of a release without a version is sent one request or reply in each message, for one session.
const PeerVersion = AdminPeerVersion

// AdminPeerVersion is the first [PeerVersion] with the requests of operators.
const AdminPeerVersion = 2

// LogVersion is the newest form of log entries that this release reads. Version 1 has [SetCapacity] and
// [MoveSession.Named], version 2 [SetLogVersion] and [MoveSessions], version 3 [TreeCommand], the clocks of entries,
// and the opener's instance. A leader writes these only when the releases of all members read them, so a rolling update
// stops no node.
//
// A leader goes beyond AutoLogVersion only when its operator allows it: otherwise the last restart of an upgrade would
// make it impossible to go back (W8).
const (
	LogVersion     = 3
	AutoLogVersion = 2
	// TreeLogVersion is the first with the tree.
	TreeLogVersion = 3
)

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
	// Interval is the interval between the beginnings of the leader's rounds (R1); 0 from a release that does not send
	// it.
	Interval time.Duration
	// Good is the newest good round (S4).
	Good uint64
	// Confirmed is c of S1: a round. This stream's answers up to the answer to that round are confirmed. 0 means none.
	Confirmed uint64
	// NotTaken are the sessions in newly confirmed answers whose touches were not taken (S1).
	NotTaken []ID
	// Attachment is the highest attachment that the leader has applied (M3).
	Attachment uint64
	// VotesFrom is an index: the node that gets the heartbeat may vote once it has applied that entry, because every
	// other voter that is not lost has applied it (R6). [NoVote] means that it may not vote yet; 0 comes from a release
	// that does not send it.
	VotesFrom uint64
	// Compare is an index that the leader has applied: answers report the digest at that index (D1). 0 means none.
	Compare uint64
	// Compared is the outcome of the newest comparison (D2). It includes every answer on this stream that came before
	// the heartbeat.
	Compared Comparison
	// Committed is an index that was committed when the leader sent the heartbeat (G6); 0 from a release that does not
	// send it.
	Committed uint64
	// Aside are the members to which no client is sent.
	Aside Aside
	// FullDisks are the voters whose full disks have every node refuse opens and writes of the tree, by node (O5).
	FullDisks []Node
	// Traced are entries that are in traces, at most [MaxTraced]: nothing depends on them.
	Traced []Traced
}

// NoVote is the [Heartbeat.VotesFrom] of a node that may not vote yet.
const NoVote = math.MaxUint64

// Answer is one chunk of a learner's part of a round (R2, T3).
type Answer struct {
	Round uint64
	// Term is the Raft term that the learner's node read after the heartbeat arrived.
	Term uint64
	// Attachment is h of R2: the highest attachment that the learner had applied after its touch table was taken.
	Attachment uint64
	// VouchAge is how long the learner's process has run since its last stall (E1), ProcessAge how long since its
	// start.
	VouchAge, ProcessAge time.Duration
	// Credit is the total credit of the process's stalls, see [Stalls].
	Credit time.Duration
	// Touches are packed by [AppendTouches].
	Touches []byte
	// Last is set on the answer's last chunk.
	Last bool
	// Applied is the index of the newest entry that the learner's node has applied (R6).
	Applied uint64
	// Digest is the learner's digest at [Heartbeat.Compare] (D1). Its Index is 0 while the learner has none there.
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
	// PeerVersion is the leader's [PeerVersion], 0 for a release without one.
	PeerVersion uint32
	// FeatureLevel is the cluster's, as the leader has applied it (W8).
	FeatureLevel uint32
}

// LearnerMessage is a learner's message on a stream after its [Hello]: exactly one field is set.
type LearnerMessage struct {
	Answer *Answer
	// Requests are at most [MaxPeerBatch]. The leader takes them in this order.
	Requests []Request
}
