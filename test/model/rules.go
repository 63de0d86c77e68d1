package model

import "holdfast/test/model/search"

// The rules, in the order of docs/protocol.md.
const (
	R1Number search.Rule = iota
	R3Observers
	R3Term
	R3Self
	R5
	A1Stops
	A1Jump
	T1Swap
	T1Filter
	T1Order
	T2
	T3Complete
	T3OneStream
	T4
	T5Owner
	T5Attachment
	T6
	E1Term
	E1Vouch
	E1Credit
	E1Grace
	E1GraceOfOne
	E1Lost
	E2Word
	E2Round
	E3Atomic
	E3Attachment
	E3Term
	E4Unknown
	E4Deadline
	S1List
	S1Round
	S1Order
	S1Part
	S2Move
	S5
	S5Pending
	M1Attempt
	M1Named
	M2
	M3Leader
	M3Term
	M5
	M6
	L3
	L7
	L8Expires
	L8Rests
	L8Suspended
	L8Touch
)

//nolint:gochecknoglobals // a table that nothing changes
var texts = search.Protocol{
	Rules: []search.Text{
		R1Number: {
			"R1 number", "an answer counts for the newest round, also for one that began after the heartbeat it answers",
		},
		R3Observers:  {"R3 observers", "an observer's answer counts towards the quorum"},
		R3Term:       {"R3 term", "an answer counts whatever term the node reads"},
		R3Self:       {"R3 own term", "the leader counts itself without reading its own term"},
		R5:           {"R5", "a tracker starts as soon as its node leads"},
		A1Stops:      {"A1 stops", "the clock never stops"},
		A1Jump:       {"A1 never jumps", "the clock makes up for the time it was stopped"},
		T1Swap:       {"T1 swap", "the table is copied, and emptied later"},
		T1Filter:     {"T1 filter", "touches made under a former attachment stay in the answer"},
		T1Order:      {"T1 order", "h is read before the table"},
		T2:           {"T2", "a touch is accepted whatever attachment it was made with"},
		T3Complete:   {"T3 complete", "the first answer on a stream has what is new only"},
		T3OneStream:  {"T3 one stream", "opening a stream leaves the older one open"},
		T4:           {"T4 read", "ages count to the sending of the answer, not to the reading of the table"},
		T5Owner:      {"T5 owner", "the leader accepts touches from nodes that do not own the session"},
		T5Attachment: {"T5 attachment", "the leader accepts touches from a node that has not applied the newest attachment"},
		T6:           {"T6", "an answer on an older stream counts"},
		E1Term:       {"E1 term", "V leaves out the term's start"},
		E1Vouch:      {"E1 vouch", "V leaves out since when the owner can vouch"},
		E1Credit:     {"E1 credit", "a stall of the owner is not credited, only the grace after it"},
		E1Grace:      {"E1 grace", "a stall is credited, without a grace after it"},
		E1GraceOfOne: {"E1 grace of one", "the grace is one interval, not two"},
		E1Lost:       {"E1 lost", "V leaves out since when the owner is silent"},
		E2Word:       {"E2 word", "a good round is enough, the owner need not have answered"},
		E2Round:      {"E2 round", "the owner's word is enough, the round need not be good"},
		E3Atomic:     {"E3 atomic", "a session is popped first and marked later"},
		E3Attachment: {"E3 attachment", "the FSM closes a session that was moved since"},
		E3Term:       {"E3 term", "the FSM applies a close that was decided in another term"},
		E4Unknown:    {"E4 unknown", "a mark is removed while the outcome of the close is unknown"},
		E4Deadline:   {"E4 deadline", "touches of a closing session do not move its deadline"},
		S1List:       {"S1 list", "the relay does not learn which touches were refused"},
		S1Round:      {"S1 good round", "touches are confirmed as soon as the leader has accepted them"},
		S1Order:      {"S1 order", "a good round confirms answers that came after its begin"},
		S1Part:       {"S1 in part", "an answer that is processed confirms its touches, however new they are"},
		S2Move:       {"S2 move", "a move sets no deadline"},
		S5:           {"S5", "a suspended machine keeps its confirmations"},
		S5Pending:    {"S5 pending", "it keeps unconfirmed touches as a ground for promises"},
		M1Attempt:    {"M1 attempt", "the FSM accepts an attempt older than the newest"},
		M1Named:      {"M1 named", "the FSM moves a session to another process, whatever attachment its resume names"},
		M2:           {"M2", "the FSM applies commands of a former attachment"},
		M3Leader:     {"M3 leader", "a node serves a move as soon as it has applied it"},
		M3Term:       {"M3 term", "any tracker's node that has applied the move may confirm it"},
		M5:           {"M5", "a node that does not know the session answers that it expired"},
		M6:           {"M6", "a session that is being closed is moved"},
		L3:           {"L3", "a node that stalled ends local sessions before it reads its sockets"},
		L7:           {"L7 since", "the FSM refuses an upgrade only while it has the certificate of the session's end"},
		L8Expires:    {"L8 expiry", "a session expires at its node while its upgrade is in flight"},
		L8Rests:      {"L8 promises", "promises rest on touches while an upgrade is in flight, not on its begin"},
		L8Suspended:  {"L8 suspended", "they rest on its begin also when the machine was suspended since"},
		L8Touch:      {"L8 handed over", "the newest touch is not handed over"},
	},
	Invariants: []string{"I1", "I3", "I4", "I8", "false end", "raft", "I5"},
}

// The properties: five invariants of ARCHITECTURE.md, that no node reports a false end (E5 ends only from the log, M5
// lagging, not expired), and the basis of the model itself.
const (
	I1       search.Invariants = 1 << iota // never early
	I3                                     // an acknowledged touch counts
	I4                                     // one owner
	I8                                     // a sick server kills nobody
	FalseEnd                               // a client learns of its session's end only after the end (E5, M5)
	Raft                                   // committed entries stay committed, and one node leads a term
	I5                                     // a session that has ended does not come back
	All      = I1 | I3 | I4 | I8 | FalseEnd | Raft | I5
)
