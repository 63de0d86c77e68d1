package faults

// Kind is what breaks.
type Kind uint8

// Kinds of fault.
const (
	// Isolate cuts a node off everybody, peers and clients, both ways.
	Isolate Kind = iota + 1
	// Split cuts a minority of the nodes off the others, both ways; clients reach all.
	Split
	// Partial cuts two nodes off each other, both ways; both reach all others.
	Partial
	// LeaderOff cuts the node that leads off its peers, both ways; clients reach it.
	LeaderOff
	// Deaf cuts what the peers send to a node, Mute what it sends to them.
	Deaf
	Mute
	// OneWay cuts one direction between two nodes.
	OneWay
	// NoRounds cuts what goes over the peer port of the node that leads, or of all: no round is good any more, while
	// Raft goes on. The leader hands over after a while, in vain in the second case (I8).
	NoRounds
	// Lag makes the links between a node and its peers slow.
	Lag
	// Reorder scatters what nodes send to each other: what goes over different connections comes in any order.
	Reorder
	// Drop resets connections of a node, to its peers and from clients, again and again: what is under way is lost.
	Drop

	// Kill ends a node's process, which later starts on the same directory.
	Kill
	// KillLeader is a Kill of the node that leads.
	KillLeader
	// KillAll kills every node at once.
	KillAll
	// LongKill keeps a node away so long that the others may have cut what it misses off their logs.
	LongKill
	// CrashLoop kills nodes, one or all in turn, and starts them again at once, again and again.
	CrashLoop
	// Torn kills a node in the middle of a write to its log, part of which is on its disk.
	Torn
	// OldSnapshot kills a node and takes its newest snapshot away.
	OldSnapshot
	// EmptyDisk kills a node and empties its directory.
	EmptyDisk
	// Restart stops a node in order, and starts it again.
	Restart
	// HandOver has the node that leads hand leadership to another.
	HandOver

	// Pause holds all traffic of a node back and delivers it later. PauseSome pauses several nodes, PauseAll all of
	// them.
	Pause
	PauseSome
	PauseAll

	// SlowDisk makes each write to a node's log slow; FullDisk refuses writes, FailDisk fails them with an outcome that
	// nobody knows, HungDisk holds them.
	SlowDisk
	FullDisk
	FailDisk
	HungDisk
	// ClockJump sets a node's wall clock forward or back, by minutes or by years.
	ClockJump

	// Flood opens hundreds of sessions at once, by clients that then vanish.
	Flood
	// Duplicate has a client send its requests twice, through one node or through two.
	Duplicate
	// PauseClient holds all traffic of a client back; StickClient has one read nothing, so that servers write to
	// nobody.
	PauseClient
	StickClient

	// LagFromClient delays what a client sends to nodes, LagToClient what they send to it: a request is old when it
	// comes, or its answer is.
	LagFromClient
	LagToClient
	// ReorderFromClient and ReorderToClient scatter it: what goes over different connections comes in any order.
	ReorderFromClient
	ReorderToClient
	// MuteClient cuts what a client sends to nodes, DeafClient what they send to it: what it asks for is done, and it
	// is not told.
	MuteClient
	DeafClient

	// Hiccups has a node's process stand for more than an interval, again and again.
	Hiccups
)

// Kinds returns all kinds.
func Kinds() []Kind { return kindsFrom(Isolate, Hiccups) }

// planned are the kinds that Plan deals, links those that Links does.
func planned() []Kind { return kindsFrom(Isolate, StickClient) }
func links() []Kind   { return kindsFrom(LagFromClient, DeafClient) }

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
		"hiccups",
	}
	if int(k) >= len(names) {
		k = 0
	}
	return names[k]
}
