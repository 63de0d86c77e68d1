package model

// The arrays' sizes. Scopes stay within them, and an action that would exceed them is impossible.
const (
	maxNodes    = 4
	maxSessions = 2
	maxLog      = 9
	maxAnswers  = 6 // remembered unconfirmed answers on one stream
	maxRounds   = 3 // open rounds of one tracker
	forever     = 255
	epoch       = 8 // a tracker's clock at its start, so that ages can reach back beyond the start
)

// State is one moment of the whole cluster. It has only byte fields, so that it is compared and hashed as its bytes.
// Fields marked "ghost" are for the oracle: only the checks of properties read them.
type State struct {
	Now   uint8 // ghost: real time, in ticks
	Spent Counts
	Node  [maxNodes]node
	Link  [maxNodes][maxNodes]link // by leader, then by member
	Truth truth
}

// node is one node. A restart keeps term, vote and log of its raft, and loses the rest.
type node struct {
	Raft    raft
	Process process
	FSM     fsm
	Tracker tracker
	Queue   [maxSessions]queued
	Learner learner
}

// link is the stream between the tracker of one node and the relay of another node, with the state of both ends.
type link struct {
	Match  uint8  // Raft: how much of the leader's log the member has acknowledged
	Member member // the tracker's knowledge of the member
	Stream stream // the tracker's end
	Relay  relay  // the relay's end
	Wire   message
	Old    message // an answer in flight on an older stream: kept only without T6
}

// message is a heartbeat or an answer on a stream.
type message struct {
	Kind     uint8
	Round, B uint8 // the heartbeat's round, and b of it
	// A heartbeat: c, p and the list (S1 confirmed touches).
	Sure, Known, List uint8
	Term, H           uint8 // an answer: R2
	StallAge          uint8
	ProcessAge        uint8 // an answer: E1
	Credit            uint8
	Process           uint8
	At                uint8 // when the table was read, on the relay's Mono (T4 age of a touch)
	ReadAt            uint8 // ghost: when the table was read, in Now
	Quiet             uint8 // ghost: the sessions that had been silent for a full timeout then
	Touch             [maxSessions]reported
}

// Kinds of messages.
const (
	heartbeat uint8 = iota + 1
	reading         // the relay has read the table and not yet answered
	answer
)

// reported is a touch in an answer. At is the touch's moment while the relay makes the answer, and its age once the
// answer is sent.
type reported struct{ Has, At, Attachment, Void, Made, Stale uint8 }
