package model

import "slices"

// small returns a scope with one session, whose owner follows, few ticks and no faults. change adds to it.
func small(name string, change func(s *Scope)) *Scope {
	s := &Scope{Name: name, Voters: 3, Owners: []uint8{1}, Ticks: 5, Timeout: 2, RunFor: 2, LostAfter: 1, Rounds: 3}
	change(s)
	return s
}

// Preludes are how the histories of a scope begin.
var (
	// n3 has been elected with the vote of n2 and leads; n1 does not know.
	deposed = []string{
		"n3 stands for election", "n2 votes for n3", "n3 counts a quorum of votes and leads",
		"n3 replicates its log to n2",
		"n3 starts a tracker (R5)",
	}
	// The same, after n3 has answered a heartbeat of n1. The answer is still under way.
	underWay = slices.Concat(
		[]string{"n1's tracker begins a round (R1)", "n3's relay takes its table for n1's heartbeat (T1)"}, deposed,
	)
	// n1's tracker, which n3 has replaced, has since taken a touch from n2.
	taken = []string{
		"an interval passes", "n2 receives a touch of s1 through attachment 1 (T2)", "n1's tracker begins a round (R1)",
		"n2's relay takes its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
	}
	// The same when the owner is n4, an observer.
	takenOfObserver = []string{
		"n2's relay opens a stream to n3's tracker (T3)",
		"an interval passes", "n4 receives a touch of s1 through attachment 1 (T2)", "n1's tracker begins a round (R1)",
		"n4's relay takes its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n4 (R3, T5)",
	}
	// The owner has been silent about its session for two intervals.
	quietFor2 = []string{
		"an interval passes", "n1's tracker begins a round (R1)", "n1's relay takes its table for n1's heartbeat (T1)",
		"n2's relay takes its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
		"an interval passes", "n1's tracker begins a round (R1)", "n1's relay takes its table for n1's heartbeat (T1)",
		"n2's relay takes its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
	}
	// ... and when its session had come due, the owner did not run for two intervals. A keep-alive came meanwhile.
	hasStalled = slices.Concat(quietFor2, []string{
		"an interval passes", "n2 is paused", "an interval passes", "n1's tracker begins a round (R1)",
		"n3's relay takes its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n3 (R3, T5)",
		"n3's relay takes its table for n1's heartbeat (T1)", "n1's relay takes its table for n1's heartbeat (T1)",
		"n1's tracker processes the answer of n3 (R3, T5)", "an interval passes",
		"n2 goes on, its clients' keep-alives wait in its sockets",
	})
	// n3 has been elected with the vote of n1. The tracker of n1 has not noticed.
	votedItself = []string{
		"n3 stands for election", "n1 votes for n3", "n3 counts a quorum of votes and leads",
		"n3 replicates its log to n1",
		"n3 starts a tracker (R5)",
	}
	// n1 has decided that s1 expires.
	decided = []string{
		"an interval passes", "an interval passes", "n1's tracker begins a round (R1)",
		"n1's relay takes its table for n1's heartbeat (T1)", "n2's relay takes its table for n1's heartbeat (T1)",
		"n1's tracker processes the answer of n2 (R3, T5)", "n1's tracker decides that s1 expires (E2)",
	}
	// ... and has since refused a touch, in the first of three answers of n2. The round that began after that answer is
	// about to be good.
	refusedAndForgotten = slices.Concat(decided, []string{
		"n2 receives a touch of s1 through attachment 1 (T2)", "n1's tracker begins a round (R1)",
		"n1's relay takes its table for n1's heartbeat (T1)",
		"n2's relay takes its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
		"n1's tracker begins a round (R1)",
		"n2's relay takes its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
		"n1's tracker begins a round (R1)",
		"n2's relay takes its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
	})
	// ... and lost its term before the close was appended.
	lostTerm = slices.Concat(decided,
		[]string{"n3 stands for election", "n1 replicates its log to n3", "n1 ends its tracker"})
	// ... and has appended the close. Then n3 is elected without having received it.
	appendedOnly = slices.Concat(decided, []string{
		"n1 appends the close of s1 (E3)", "n3 stands for election", "n2 votes for n3",
		"n3 counts a quorum of votes and leads",
	})
)

// Scopes for one kind of trouble each.
var (
	calm      = small("calm", func(*Scope) {})
	forgetful = small("forgetful", func(s *Scope) { s.Prelude, s.Rounds, s.Remembers = refusedAndForgotten, 5, 2 })
	slow      = small("slow", func(s *Scope) { s.SlowAnswer = true })
	refusing  = small("refusing", func(s *Scope) { s.Most[Refusals] = 1 })
	losing    = small("losing", func(s *Scope) { s.Most[Losses] = 1 })
	pausing   = small("pausing", func(s *Scope) { s.Most[Pauses] = 1 })
	stalling  = small("stalling", func(s *Scope) {
		s.Prelude, s.Most[Pauses], s.Ticks, s.Timeout, s.LostAfter = quietFor2, 2, 7, 3, 3
	})
	stalled = small("stalled", func(s *Scope) {
		s.Prelude, s.Most[Pauses], s.Ticks, s.Timeout, s.LostAfter = hasStalled, 1, 7, 3, 3
	})
	suspending = small("suspending", func(s *Scope) { s.Most[Suspends] = 1 })
	restarting = small("restarting", func(s *Scope) { s.Most[Restarts] = 1 })
	restarts2  = small("restarting, losing", func(s *Scope) { s.Most[Restarts], s.Most[Losses] = 1, 1 })
	electing   = small("electing", func(s *Scope) { s.Most[Elections] = 1 })
	moving     = small("moving", func(s *Scope) { s.Most[Moves] = 1 })
	movingBack = small("moving back", func(s *Scope) { s.Most[Moves] = 2 })
	movingSlow = small("moving, slow answers", func(s *Scope) { s.Most[Moves], s.SlowAnswer = 1, true })
	writes1    = small("writing", func(s *Scope) { s.Most[Moves], s.Most[Writes] = 1, 1 })
	handedOver = small("handed over", func(s *Scope) { s.Most[Moves], s.Most[TakeOvers] = 1, 2 })
	lagging    = small("lagging", func(s *Scope) { s.Most[Moves], s.Most[Restarts] = 1, 1 })
	applySlow  = small("moving, slow apply", func(s *Scope) { s.Most[Moves], s.SlowApply = 1, true })
	electMove  = small("electing, moving", func(s *Scope) { s.Most[Elections], s.Most[Moves] = 1, 1 })
	twoLeaders = small("two leaders", func(s *Scope) { s.Prelude = deposed })
	overtaken  = small("overtaken", func(s *Scope) { s.Prelude = slices.Concat(deposed, taken) })
	answered   = small("answer under way", func(s *Scope) { s.Prelude = slices.Concat(underWay, taken) })
	outcome    = small("outcome unknown", func(s *Scope) {
		s.Prelude = append(slices.Clip(decided), "n1 appends the close of s1 (E3)")
	})
	ownVote  = small("own vote", func(s *Scope) { s.Prelude = votedItself })
	observer = small("observer", func(s *Scope) {
		s.Prelude, s.Observers, s.Owners = slices.Concat(deposed, takenOfObserver), 1, []uint8{3}
	})
	regaining   = small("regaining", func(s *Scope) { s.Prelude, s.Most[Elections] = lostTerm, 1 })
	lateCommit  = small("late commit", func(s *Scope) { s.Prelude, s.Most[Elections] = appendedOnly, 1 })
	deposedMove = small("deposed, moving", func(s *Scope) {
		s.Prelude, s.Most[Moves], s.SlowApply = deposed[:4], 1, true
	})
)

// localScope is small with a session that begins as a local one and may be upgraded.
func localScope(name string, change func(s *Scope)) *Scope {
	return small("local, "+name, func(s *Scope) {
		s.Local, s.Most[Upgrades] = true, 1
		change(s)
	})
}

// Scopes of local sessions.
var (
	localCalm    = localScope("calm", func(*Scope) {})
	localPausing = localScope("pausing", func(s *Scope) { s.Most[Pauses] = 1 })
	localSlow    = localScope("slow apply", func(s *Scope) { s.SlowApply = true })
	localSuspend = localScope("suspending", func(s *Scope) { s.Most[Suspends], s.SlowApply = 1, true })
	localAgain   = localScope("asked for again", func(s *Scope) {
		s.Most[Upgrades], s.SlowApply, s.Timeout, s.RunFor = 2, true, 1, 1
	})
)

// leftOut is a row of the table in README.md.
type leftOut struct {
	rule   Rule
	scope  *Scope
	breaks Invariants // 0: the walks find nothing
	seed   uint64     // the number of the first walk, close to the one that finds the story
}

var leftOuts = []leftOut{
	{R1Number, answered, I3, 3334},
	{R3Observers, observer, I3, 5238},
	{R3Term, overtaken, I3, 47},
	{R3Self, ownVote, I3, 10276},
	{R5, lateCommit, I3, 4449},
	{R5, electMove, I4, 15186},
	{A1Stands, pausing, I8, 36992},
	{A1Jump, calm, I1, 257},
	{A1Jump, calm, I3, 2006},
	{T1Swap, slow, I1, 82},
	{T1Filter, movingBack, I4, 4},
	{T1Order, movingSlow, I1, 3460},
	{T2, moving, I4, 4},
	{T3Complete, losing, I1, 1121},
	{T3OneStream, twoLeaders, I1, 6890},
	{T4, slow, I1, 3090},
	{T5Owner, applySlow, 0, 0},
	{T5Attachment, moving, I4, 8},
	{T6, restarts2, 0, 0},
	{E1Term, electing, I1, 143},
	{E1Vouch, restarting, I1, 61},
	{E1Vouch, pausing, I1, 279},
	{E1Credit, stalling, I8, 7300},
	{E1Grace, stalled, I1, 0},
	{E1GraceOfOne, stalled, I1, 1400},
	{E1Lost, calm, I1, 184},
	{E2Word, calm, I1, 61},
	{E2Round, twoLeaders, 0, 0},
	{E2Round, lateCommit, 0, 0},
	{E3Atomic, calm, I3, 140},
	{E3Attachment, moving, I1, 866},
	{E3Term, regaining, I3, 34},
	{E4Unknown, outcome, I3, 9149},
	{E4Deadline, refusing, I1, 63},
	{S1List, calm, I3, 240},
	{S1Forgotten, forgetful, I3, 230},
	{S1Round, twoLeaders, I3, 2756},
	{S1Order, answered, I3, 2591},
	{S2Move, moving, I1, 60},
	{S5, suspending, I3, 168},
	{S5Pending, suspending, I3, 141},
	{M1Attempt, movingBack, I4, 26},
	{M1Named, handedOver, I4, 0},
	{M2, writes1, I4, 2},
	{M3Leader, applySlow, I4, 435},
	{M3Term, deposedMove, I4, 5029},
	{M5, lagging, Told, 7},
	{M6, moving, 0, 0},
	{L3, localPausing, I1, 60},
	{L7, localAgain, I5, 500},
	{L8Stays, localSlow, I5, 600},
	{L8Rests, localSlow, I3, 0},
	{L8Suspended, localSuspend, I3, 150},
	{L8Touch, localCalm, I1, 0},
}

// complete is a scope that Explore sees whole, for some invariants. The fewer invariants, the more of a state can be
// forgotten.
type complete struct {
	scope      *Scope
	invariants Invariants
	wide       bool // runs only with TIME
}

// whole is small enough to be seen whole: it lasts until a session can first expire, and has one round in a tick.
func whole(name string, change func(s *Scope)) *Scope {
	return small("whole, "+name, func(s *Scope) {
		s.Ticks, s.Rounds = 2, 1
		change(s)
	})
}

// short is smaller still, for faults that multiply the orders: the timeout is one tick, and so is the history.
func short(name string, change func(s *Scope)) *Scope {
	return small("short, "+name, func(s *Scope) {
		s.Ticks, s.Timeout, s.RunFor, s.Rounds = 1, 1, 1, 1
		change(s)
	})
}

// wides are searched by random walks only. They have the protocol's own proportions: the clock runs for 2 intervals,
// and a member is lost after 3.
var wides = []*Scope{
	{
		Name: "everything", Voters: 3, Owners: []uint8{1}, Ticks: 14, Timeout: 4, RunFor: 2, LostAfter: 3, Rounds: 3,
		Most: Counts{Elections: 2, Losses: 2, Pauses: 2, Restarts: 1, Moves: 2, Writes: 1, Refusals: 1},
	},
	{
		Name: "handed to and fro", Voters: 3, Owners: []uint8{1}, Ticks: 12,
		Timeout: 3, RunFor: 2, LostAfter: 3, Rounds: 2, SlowApply: true,
		Most: Counts{Elections: 2, Losses: 1, Pauses: 1, Restarts: 1, Moves: 2, TakeOvers: 3},
	},
	{
		Name: "everything, slowly", Voters: 3, Owners: []uint8{1}, Ticks: 14,
		Timeout: 4, RunFor: 2, LostAfter: 3, Rounds: 2, SlowApply: true, SlowAnswer: true,
		Most: Counts{Elections: 2, Losses: 1, Pauses: 1, Suspends: 1, Restarts: 1, Moves: 2, Refusals: 1},
	},
	{
		Name: "two sessions", Voters: 3, Owners: []uint8{0, 1}, Ticks: 12, Timeout: 3, RunFor: 2, LostAfter: 3,
		Rounds: 2,
		Most:   Counts{Elections: 2, Losses: 1, Pauses: 1, Restarts: 1, Moves: 2, Refusals: 1},
	},
	{
		Name: "an observer owns", Voters: 3, Observers: 1, Owners: []uint8{3}, Ticks: 12,
		Timeout: 3, RunFor: 2, LostAfter: 3, Rounds: 3,
		Most: Counts{Elections: 2, Losses: 1, Pauses: 1, Restarts: 1, Moves: 1},
	},
	{
		Name: "leaders come and go", Voters: 3, Owners: []uint8{1}, Ticks: 12,
		Timeout: 3, RunFor: 2, LostAfter: 1, Rounds: 3, SlowApply: true,
		Most: Counts{Elections: 4, Refusals: 1},
	},
	{
		Name: "two leaders from the start", Voters: 3, Owners: []uint8{1}, Ticks: 12,
		Timeout: 3, RunFor: 2, LostAfter: 2, Rounds: 3, Prelude: deposed,
		Most: Counts{Elections: 1, Losses: 1, Pauses: 1, Restarts: 1, Moves: 1, Refusals: 1},
	},
	{
		Name: "local sessions", Voters: 3, Owners: []uint8{0, 1}, Ticks: 12,
		Timeout: 3, RunFor: 2, LostAfter: 2, Rounds: 2, Local: true, SlowApply: true,
		Most: Counts{
			Elections: 1, Losses: 1, Pauses: 1, Suspends: 1, Restarts: 1, Moves: 1, Upgrades: 3, TakeOvers: 1,
		},
	},
}

var completes = slices.Concat(
	each(whole("calm", func(*Scope) {}), false, I1, I3, I4),
	each(whole("losing", func(s *Scope) { s.Most[Losses] = 1 }), true, I1, I3, I4),
	each(whole("pausing", func(s *Scope) { s.Most[Pauses] = 1 }), true, I1, I3, I4),
	each(small("whole, the clock stands", func(s *Scope) { s.Ticks, s.Rounds, s.RunFor = 3, 1, 1 }), true, I1, I3, I8),
	each(small("whole, stalled", func(s *Scope) {
		s.Prelude, s.Most[Pauses], s.Ticks, s.Timeout, s.LostAfter, s.Rounds = hasStalled, 1, 7, 3, 3, 1
	}), true, I1, I3, I8),
	each(whole("restarting", func(s *Scope) { s.Most[Restarts] = 1 }), true, I1, I3, I4),
	each(whole("suspending", func(s *Scope) { s.Most[Suspends] = 1 }), true, I1, I3),
	each(short("moving", func(s *Scope) { s.Most[Moves] = 1 }), true, I1, I3, I4),
	each(short("handed over", func(s *Scope) { s.Most[Moves], s.Most[TakeOvers] = 1, 1 }), true, I4),
	each(short("electing", func(s *Scope) { s.Most[Elections] = 1 }), true, I1, I3, I4, Raft),
	each(short("two leaders", func(s *Scope) { s.Prelude = deposed }), true, I1, I3, I4),
	each(short("own vote", func(s *Scope) { s.Prelude = votedItself }), true, I1, I3),
	each(whole("losing and pausing", func(s *Scope) { s.Most[Losses], s.Most[Pauses] = 1, 1 }), true, I1, I3),
	each(short("local", func(s *Scope) { s.Local, s.Most[Upgrades] = true, 2 }), true, I1, I3),
	each(short("local", func(s *Scope) { s.Local, s.Most[Upgrades] = true, 2 }), false, I5),
	each(short("local, slow apply", func(s *Scope) { s.Local, s.Most[Upgrades], s.SlowApply = true, 2, true }), true,
		I1,
		I3, I5),
	each(whole("local", func(s *Scope) { s.Local, s.Most[Upgrades] = true, 1 }), true, I1, I3, I5),
	each(small("whole, longer", func(s *Scope) { s.Ticks, s.Rounds = 3, 1 }), true, I1, I3, I4),
)

// each returns one search of the whole scope for each of the invariants.
func each(scope *Scope, wide bool, invariants ...Invariants) []complete {
	var all []complete
	for _, i := range invariants {
		all = append(all, complete{scope, i, wide})
	}
	return all
}
