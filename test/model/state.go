package model

// The arrays' sizes. Scopes stay within them; actions that would leave them are not taken.
const (
	maxNodes    = 4
	maxSessions = 2
	maxLog      = 9
	maxAnswers  = 6 // answers on one stream that are remembered until they are confirmed
	maxRounds   = 3 // rounds of one tracker that are begun and not good
	forever     = 255
	epoch       = 8 // what a tracker's clock reads at its start, so that ages can go back beyond it
)

// State is one moment of the whole cluster. It has bytes only, so that it is compared and hashed as it lies in memory.
// Fields called ghost are what an onlooker knows: properties are checked with them, no rule reads them.
type State struct {
	Now   uint8 // ghost: real time, in ticks
	Spent [faultKinds]uint8
	Node  [maxNodes]node
	Link  [maxNodes][maxNodes]link // by leader, then by member
	Truth truth
	// Broken are the invariants that this history has broken.
	Broken Invariants
}

// node is what one node has: on disk its term, vote and log; in memory the rest.
type node struct {
	// Voted: 1 + the node voted for in Term; Votes: the set of those who voted for this node
	Term, Voted, Votes, Role uint8
	Rest, RestedAt           uint8 // whether the process runs, and since when it does not
	Backlog                  uint8 // sessions whose keep-alives wait in sockets since the process did not run
	Mono                     uint8 // monotonic clock
	// since when the relay can vouch, and since when its process runs, on Mono (E1); 0: since before the history
	Vouch, Started uint8
	Incarnation    uint8 // how often the process was started again (T6)
	Stalls         stalls
	Covered        uint8 // until when stalls are credited, on Mono
	// ghost: the set of ticks, in Now, in which the process did not run and noticed that
	Stood                [3]uint8
	Len, Commit, Applied uint8
	Log                  [maxLog]entry
	FSM                  fsm
	Tracker              tracker
	Queue                [maxSessions]queued
	Table                [maxSessions]touch
	Conns                [maxSessions]uint8 // set of the attachments whose connections ended here
	Confirmed            [maxSessions]heard
	Request              [maxSessions]request
	Local                [maxSessions]local
}

// What a node is in Raft.
const (
	follower uint8 = iota
	candidate
	leader
)

// Whether a process runs.
const (
	runs      uint8 = iota
	paused          // its monotonic clock goes on
	suspended       // with its machine, whose monotonic clock stands
)

// entry is one of Raft's log.
type entry struct {
	Term, Kind, Session uint8
	Node, Attempt       uint8 // a move: to which node, by which attempt; an upgrade: of which node, and since
	// a close: of which attachment, and the term that decided (E3); a write: of which attachment; a move: which one it
	// names (M1)
	Attachment, Decided uint8
	Instance            uint8 // a move: of which process; 0 in scopes without take-overs
	Present             uint8 // ghost; a move: the session's newest attachment when the client sent the request
	// a move: when its node received the request; an upgrade: when it was appended; a close: the invariants that its
	// decision broke
	Ghost uint8
}

// Kinds of entries.
const (
	opens  uint8 = iota + 1 // the first entry of every history: opens all sessions
	begins                  // a tracker's own (R5)
	moves
	closes
	writes
	upgrades
)

// fsm is the replicated state.
type fsm struct {
	Counter uint8 // of attachments (M1)
	// In scopes with local sessions: entries applied, and the index of the newest end (L7).
	Index, LastEnd uint8
	Session        [maxSessions]session
}

// session as the FSM has it.
type session struct {
	Alive, Owner, Attachment uint8
	Instance, Attempt        uint8 // of the newest move (M1)
	Term                     uint8 // of the entry that gave the attachment (M3)
}

// tracker is what the leader keeps for one term.
type tracker struct {
	On, Term      uint8
	Clock, Run    uint8 // its reading, and how long it still runs (A1)
	Stood         uint8 // how long it stood; ghost but for A1Jump
	Book          uint8 // ghost: how long a clock by A1 would still run
	Begun, BegunB uint8 // the newest round, and b of it
	InTick        uint8 // rounds begun in this tick
	Good, GoodB   uint8 // the newest good round, and b of it
	B             [maxRounds]uint8
	Deadline      [maxSessions]uint8
	Mark          [maxSessions]uint8
}

// Marks of a session in a tracker.
const (
	popped  uint8 = iota + 1 // out of the queue and not yet marked: only without E3Atomic
	closing                  // marked, the close is not yet handed to the log
	unknown                  // the close was appended
)

// queued is a close on its way to Raft. It outlives the tracker that decided it: raft.Apply takes no term (E3).
type queued struct{ Term, Attachment, Broke uint8 }

// touch is an entry of the touch table.
type touch struct {
	Attachment, At uint8 // as recorded; At on the node's Mono
	New            uint8 // not yet reported
	Void           uint8 // made before the machine was suspended (S5)
	Made           uint8 // ghost: the attachment of the connection it came through
	Stale          uint8 // ghost: made after a newer attachment was served
}

// heard is the newest confirmed touch (S1, S2), on the node's Mono.
type heard struct{ Attachment, At uint8 }

// request is a client's resume at a node.
type request struct {
	Attempt, At, Void, Sent, Real uint8 // At on Mono, Real (ghost) in Now; Sent: proposed
	// In scopes with take-overs: which process asks, which attachment it names, and (ghost) which was the session's
	// newest then.
	Instance, Named, Present uint8
}

// link is the stream between the tracker of one node and the relay of another, and what both keep for it.
type link struct {
	Match uint8 // Raft: how much of the leader's log the member has acknowledged

	// At the tracker.
	Open        uint8 // the stream is not known to have ended
	Out         uint8 // the round of the unanswered heartbeat, 0 if there is none
	OutB, OutAt uint8 // b of that round, and when the heartbeat was sent
	Last        uint8 // the newest round that it was sent a heartbeat of, on this stream
	Voted       uint8 // the newest round that the member counts for (R3)
	WordB       uint8 // b of the newest round that it answered (E2)
	Started     uint8 // since when its process runs, on the tracker's clock (E1)
	Stalls      stalls
	Process     uint8 // the incarnation that spoke last,
	Credit      uint8 // what it said that its stalls are credited with,
	HeardAt     uint8 // and when
	Silent      uint8 // since when it is silent, 0 if it is not (E1)
	In          uint8 // answers processed on this stream
	Sure, Told  uint8 // answers that are confirmed, and up to which the relay was told so (S1)
	Refused     [maxAnswers]uint8
	InAtB       [maxRounds]uint8 // In when the round began
	// ghost: when the newest processed answer's table was taken, how long the clock stood since
	Took, Idle uint8
	Quiet      uint8 // ghost: the sessions that had been silent for a full timeout then

	// At the relay.
	Up       uint8 // the stream is open
	Complete uint8 // the next answer is complete (T3)
	Answered uint8 // answers sent on this stream
	Heard    uint8 // answers known to be confirmed
	Sent     [maxAnswers][maxSessions]heard
	Left     [maxSessions]heard // the newest touches in answers that it remembers no more, and that are not confirmed

	Wire message
	Old  message // an answer still under way on an older stream: kept only without T6
}

// message is what travels on a stream.
type message struct {
	Kind       uint8
	Round, B   uint8 // of the heartbeat, and b of it
	Sure, List uint8 // a heartbeat: c and the list (S1)
	Term, H    uint8 // an answer: R2
	VouchAge   uint8
	ProcessAge uint8 // an answer: E1
	Credit     uint8
	Process    uint8
	At         uint8 // when the table was taken, on the relay's Mono (T4)
	Took       uint8 // ghost
	Quiet      uint8 // ghost
	Touch      [maxSessions]reported
}

// What a message is.
const (
	heartbeat uint8 = iota + 1
	taking          // the relay has taken the table and not yet answered
	answer
)

// reported is a touch in an answer. While the relay is still at it At is the moment; once sent it is the age.
type reported struct{ Has, At, Attachment, Void, Made, Stale uint8 }

// truth is what an onlooker knows.
type truth struct {
	Len     uint8 // committed entries
	Log     [maxLog]entry
	FSM     fsm
	Session [maxSessions]fate
}

// fate of a session, in Now.
type fate struct {
	Touched uint8 // the newest touch that the owner received under the newest attachment
	Known   uint8 // the newest request for a move that was committed
	Safe    uint8 // until when its client was promised to be safe
	Ended   uint8 // 1 + when it was expired
	Served  uint8 // the newest attachment that was served,
	// the process and the attempt that brought it, and the term of its entry.
	ServedInstance, ServedAttempt, ServedTerm uint8
	Attempts                                  uint8 // made so far, by both processes: one's numbers rise as well
	// in scopes with take-overs: the attachment of the first process's token
	Named uint8
}

// Kinds of faults and requests that a scope counts.
const (
	elections = iota
	losses
	pauses
	suspends
	restarts
	moveds
	written
	refusals
	upgradeds
	takenOver
	faultKinds
)
