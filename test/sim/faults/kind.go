package faults

import "slices"

// Kind is the kind of a fault.
type Kind uint8

// Kinds of fault.
const (
	// Isolate cuts a node off from all hosts, peers and clients, in both directions.
	Isolate Kind = iota + 1
	// Split cuts a minority of the nodes off from the others, in both directions. Clients reach all nodes.
	Split
	// Partial cuts two nodes off from each other, in both directions. Both reach all others.
	Partial
	// LeaderOff cuts the leading node off from its peers, in both directions. Clients reach it.
	LeaderOff
	// Deaf cuts the direction from the peers to a node, Mute the direction from the node to its peers.
	Deaf
	Mute
	// OneWay cuts one direction between two nodes.
	OneWay
	// NoRounds cuts the connections to the peer port of the leading node, or of all nodes. No round is good any more,
	// while Raft continues. The leader transfers leadership after a while; in the second case in vain (I8 a sick server
	// kills nobody).
	NoRounds
	// Lag makes the links between a node and its peers slow.
	Lag
	// Reorder scatters the nodes' messages in time: on different connections they arrive in any order.
	Reorder
	// Drop resets a node's connections to its peers and from clients, repeatedly. Bytes in flight are lost.
	Drop

	// Kill ends a node's process. The node starts later on the same directory.
	Kill
	// KillLeader kills the leading node.
	KillLeader
	// KillAll kills every node at once.
	KillAll
	// LongKill keeps a node away until the others may have dropped the log entries that it misses.
	LongKill
	// CrashLoop kills nodes, one node repeatedly or all in turn, and restarts each at once.
	CrashLoop
	// Torn kills a node in the middle of a write to its log. A part of the write is on its disk.
	Torn
	// OldSnapshot kills a node and removes its newest snapshot.
	OldSnapshot
	// EmptyDisk kills a node and empties its directory.
	EmptyDisk
	// Restart stops a node in order and starts it again.
	Restart
	// HandOver makes the leading node transfer leadership to another node.
	HandOver

	// Pause holds all traffic of a node back and delivers it later. PauseSome pauses several nodes, PauseAll all nodes.
	Pause
	PauseSome
	PauseAll

	// SlowDisk makes each write to a node's log slow. FullDisk refuses writes, FailDisk fails them with an unknown
	// outcome, HungDisk holds them.
	SlowDisk
	FullDisk
	FailDisk
	HungDisk
	// ClockJump sets a node's wall clock forward or back, by minutes or by years.
	ClockJump

	// Flood opens hundreds of sessions at once, for clients that then vanish.
	Flood
	// Duplicate makes a client send its requests twice, through one node or through two.
	Duplicate
	// PauseClient holds all traffic of a client back. StickClient makes a client read nothing, so that servers' answers
	// pile up.
	PauseClient
	StickClient

	// LagFromClient delays a client's requests, LagToClient the nodes' answers.
	LagFromClient
	LagToClient
	// ReorderFromClient and ReorderToClient scatter a client's requests or the answers: on different connections they
	// arrive in any order.
	ReorderFromClient
	ReorderToClient
	// MuteClient cuts the direction from a client to nodes. DeafClient cuts the other direction: the client's requests
	// are done, and it gets no answer.
	MuteClient
	DeafClient

	// Hiccups stop a node's process for more than an interval, repeatedly.
	Hiccups

	// ResetLeader resets connections of the living leading node repeatedly: all at once, or those to some nodes.
	ResetLeader
	// RefuseDials makes dials between the leading node and a minority fail at once, in one direction or in both,
	// although all processes live. The connections between them are reset first.
	RefuseDials
	// Blink ends a node's process and restarts it within 10 ms.
	Blink
	// Rivals kills the leading node while messages between the others are so slow that the questions of two candidates
	// cross.
	Rivals

	// SlowApply makes a node's state machine slow, so that it lags behind the log.
	SlowApply
	// Cross lets a node's writes and refusals, on a separate stream, overtake its requests and the leader's heartbeats,
	// and be overtaken by them.
	Cross

	// Drain makes an operator drain a node, and undrain it.
	Drain
	// Freeze makes an operator freeze the cluster. Either the operator thaws it, or the freeze reaches its bound.
	Freeze
	// EndSessions makes an operator end sessions repeatedly, one session or those with a label.
	EndSessions
	// Extend has an operator keep sessions for a time, or no longer, again and again.
	Extend

	// Add has a new node start on an empty disk, and an operator add it: as an observer, or for a vote.
	Add
	// Demote makes an operator demote a member, and promote it again.
	Demote
	// Remove makes an operator remove a member for good. Its process ends some time later.
	Remove
	// Transfer has an operator transfer leadership to a member.
	Transfer
)

// Kinds returns all kinds.
func Kinds() []Kind { return kindsFrom(Isolate, Transfer) }

// planned returns the kinds that Plan deals, links those that Links deals, successions those that Successions deals.
func planned() []Kind { return kindsFrom(Isolate, StickClient) }
func links() []Kind   { return kindsFrom(LagFromClient, DeafClient) }

func successions() []Kind { return kindsFrom(ResetLeader, Rivals) }

// Clean reports whether a fault of the kind only ends processes and connections, and refuses new ones. All other
// messages arrive in time, so it is known which voters must find a leader gone (F1 the leader is found gone).
func (k Kind) Clean() bool {
	return slices.Contains([]Kind{
		Drop, Kill, KillLeader, LongKill, CrashLoop, ResetLeader, RefuseDials, Blink, Rivals,
	}, k)
}

// Harmless reports whether faults of the kind touch nothing but the sessions that an operator names: no judge makes
// allowances for them.
func (k Kind) Harmless() bool { return k == EndSessions || k == Extend }

// kindsFrom returns the kinds from first to last.
func kindsFrom(first, last Kind) []Kind {
	all := make([]Kind, 0, last-first+1)
	for k := first; k <= last; k++ {
		all = append(all, k)
	}
	return all
}

// String returns the kind in words.
func (k Kind) String() string {
	names := [...]string{
		"?", "isolate", "split", "partial partition", "cut leader off peers", "deaf", "mute", "one-way cut",
		"no rounds", "delay spike", "reorder", "drop",
		"kill", "kill leader", "kill all", "long kill", "crash loop", "torn write", "older snapshot", "empty disk",
		"restart", "hand over",
		"pause", "pause some", "pause all", "slow disk", "full disk", "failing disk", "hung disk", "clock jump",
		"client flood", "duplicate", "pause client", "stuck client",
		"delay from client", "delay to client", "reorder from client", "reorder to client", "mute client",
		"deaf client",
		"hiccups", "reset leader", "refused dials", "blink", "rivals", "slow apply", "crossed streams",
		"drain", "freeze", "end sessions", "extend sessions",
		"add member", "demote member", "remove member", "transfer leadership",
	}
	if int(k) >= len(names) {
		k = 0
	}
	return names[k]
}
