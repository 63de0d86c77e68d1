package model

import (
	"slices"

	"holdfast/test/model/check"
	"holdfast/test/model/search"
)

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
		"n3 campaigns", "n2 votes for n3", "n3 counts a quorum of votes and leads",
		"n3 replicates its log to n2",
		"n3 starts a tracker (R5)",
	}
	// The same, after n3 has answered a heartbeat of n1. The answer is still in flight.
	inFlight = slices.Concat(
		[]string{"n1's tracker begins a round (R1)", "n3's relay reads its table for n1's heartbeat (T1)"}, deposed,
	)
	// n1's tracker, which n3 has replaced, has since accepted a touch from n2.
	accepted = []string{
		"an interval passes", "n2 receives a touch of s1 through attachment 1 (T2)", "n1's tracker begins a round (R1)",
		"n2's relay reads its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
	}
	// The same when the owner is n4, an observer.
	acceptedOfObserver = []string{
		"n2's relay opens a stream to n3's tracker (T3)",
		"an interval passes", "n4 receives a touch of s1 through attachment 1 (T2)", "n1's tracker begins a round (R1)",
		"n4's relay reads its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n4 (R3, T5)",
	}
	// The owner has been silent about its session for two intervals.
	quietFor2 = []string{
		"an interval passes", "n1's tracker begins a round (R1)", "n1's relay reads its table for n1's heartbeat (T1)",
		"n2's relay reads its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
		"an interval passes", "n1's tracker begins a round (R1)", "n1's relay reads its table for n1's heartbeat (T1)",
		"n2's relay reads its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n2 (R3, T5)",
	}
	// ... and when its session had come due, the owner did not run for two intervals. A keep-alive came meanwhile.
	hasStalled = slices.Concat(quietFor2, []string{
		"an interval passes", "n2 is paused", "an interval passes", "n1's tracker begins a round (R1)",
		"n3's relay reads its table for n1's heartbeat (T1)", "n1's tracker processes the answer of n3 (R3, T5)",
		"n3's relay reads its table for n1's heartbeat (T1)", "n1's relay reads its table for n1's heartbeat (T1)",
		"n1's tracker processes the answer of n3 (R3, T5)", "an interval passes",
		"n2 continues, its clients' keep-alives wait in its sockets",
	})
	// n3 has been elected with the vote of n1. The tracker of n1 has not noticed.
	votedItself = []string{
		"n3 campaigns", "n1 votes for n3", "n3 counts a quorum of votes and leads",
		"n3 replicates its log to n1",
		"n3 starts a tracker (R5)",
	}
	// n1 has decided that s1 expires.
	decided = []string{
		"an interval passes", "an interval passes", "n1's tracker begins a round (R1)",
		"n1's relay reads its table for n1's heartbeat (T1)", "n2's relay reads its table for n1's heartbeat (T1)",
		"n1's tracker processes the answer of n2 (R3, T5)", "n1's tracker decides that s1 expires (E2)",
	}
	// ... and lost its term before the close was appended.
	lostTerm = slices.Concat(decided,
		[]string{"n3 campaigns", "n1 replicates its log to n3", "n1 ends its tracker"})
	// ... and has appended the close. Then n3 is elected without having received it.
	appendedOnly = slices.Concat(decided, []string{
		"n1 appends the close of s1 (E3)", "n3 campaigns", "n2 votes for n3",
		"n3 counts a quorum of votes and leads",
	})
)

// Scopes for one kind of trouble each.
var (
	calm     = small("calm", func(*Scope) {})
	slow     = small("slow", func(s *Scope) { s.SlowAnswer = true })
	refusing = small("refusing", func(s *Scope) { s.Most[Refusals] = 1 })
	losing   = small("losing", func(s *Scope) { s.Most[Losses] = 1 })
	pausing  = small("pausing", func(s *Scope) { s.Most[Pauses] = 1 })
	stalling = small("stalling", func(s *Scope) {
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
	overtaken  = small("overtaken", func(s *Scope) { s.Prelude = slices.Concat(deposed, accepted) })
	answered   = small("answer in flight", func(s *Scope) { s.Prelude = slices.Concat(inFlight, accepted) })
	outcome    = small("outcome unknown", func(s *Scope) {
		s.Prelude = append(slices.Clip(decided), "n1 appends the close of s1 (E3)")
	})
	ownVote  = small("own vote", func(s *Scope) { s.Prelude = votedItself })
	observer = small("observer", func(s *Scope) {
		s.Prelude, s.Observers, s.Owners = slices.Concat(deposed, acceptedOfObserver), 1, []uint8{3}
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
	localRetry   = localScope("requested again", func(s *Scope) {
		s.Most[Upgrades], s.SlowApply, s.Timeout, s.RunFor = 2, true, 1, 1
	})
)

var leftOuts = []check.LeftOut[*Scope]{
	{Without: search.Rules(R1Number), Breaks: I3, Scope: answered, Seed: 3334},
	{Without: search.Rules(R3Observers), Breaks: I3, Scope: observer, Seed: 5238},
	{Without: search.Rules(R3Term), Breaks: I3, Scope: overtaken, Seed: 47},
	{Without: search.Rules(R3Self), Breaks: I3, Scope: ownVote, Seed: 10276},
	{Without: search.Rules(R5), Breaks: I3, Scope: lateCommit, Seed: 4449},
	{Without: search.Rules(R5), Breaks: I4, Scope: electMove, Seed: 15186},
	{Without: search.Rules(A1Stops), Breaks: I8, Scope: pausing, Seed: 36992},
	{Without: search.Rules(A1Jump), Breaks: I1, Scope: calm, Seed: 257},
	{Without: search.Rules(A1Jump), Breaks: I3, Scope: calm, Seed: 2006},
	{Without: search.Rules(T1Swap), Breaks: I1, Scope: slow, Seed: 82},
	{Without: search.Rules(T1Filter), Breaks: I4, Scope: movingBack, Seed: 4},
	{Without: search.Rules(T1Order), Breaks: I1, Scope: movingSlow, Seed: 3460},
	{Without: search.Rules(T2), Breaks: I4, Scope: moving, Seed: 4},
	{Without: search.Rules(T3Complete), Breaks: I1, Scope: losing, Seed: 1121},
	{Without: search.Rules(T3OneStream), Breaks: I1, Scope: twoLeaders, Seed: 6890},
	{Without: search.Rules(T4), Breaks: I1, Scope: slow, Seed: 3090},
	{Without: search.Rules(T5Owner), Breaks: 0, Scope: applySlow},
	{Without: search.Rules(T5Attachment), Breaks: I4, Scope: moving, Seed: 8},
	{Without: search.Rules(T6), Breaks: 0, Scope: restarts2},
	{Without: search.Rules(E1Term), Breaks: I1, Scope: electing, Seed: 143},
	{Without: search.Rules(E1Vouch), Breaks: I1, Scope: restarting, Seed: 61},
	{Without: search.Rules(E1Vouch), Breaks: I1, Scope: pausing, Seed: 279},
	{Without: search.Rules(E1Credit), Breaks: I8, Scope: stalling, Seed: 7300},
	{Without: search.Rules(E1Grace), Breaks: I1, Scope: stalled},
	{Without: search.Rules(E1GraceOfOne), Breaks: I1, Scope: stalled, Seed: 1400},
	{Without: search.Rules(E1Lost), Breaks: I1, Scope: calm, Seed: 184},
	{Without: search.Rules(E2Word), Breaks: I1, Scope: calm, Seed: 61},
	{Without: search.Rules(E2Round), Breaks: 0, Scope: twoLeaders},
	{Without: search.Rules(E2Round), Breaks: 0, Scope: lateCommit},
	{Without: search.Rules(E3Atomic), Breaks: I3, Scope: calm, Seed: 140},
	{Without: search.Rules(E3Attachment), Breaks: I1, Scope: moving, Seed: 866},
	{Without: search.Rules(E3Term), Breaks: I3, Scope: regaining, Seed: 34},
	{Without: search.Rules(E4Unknown), Breaks: I3, Scope: outcome, Seed: 9149},
	{Without: search.Rules(E4Deadline), Breaks: I1, Scope: refusing, Seed: 63},
	{Without: search.Rules(S1List), Breaks: I3, Scope: calm, Seed: 240},
	{Without: search.Rules(S1Round), Breaks: I3, Scope: twoLeaders, Seed: 2756},
	{Without: search.Rules(S1Order), Breaks: I3, Scope: answered, Seed: 2591},
	{Without: search.Rules(S1Part), Breaks: I3, Scope: answered},
	{Without: search.Rules(S2Move), Breaks: I1, Scope: moving, Seed: 60},
	{Without: search.Rules(S5), Breaks: I3, Scope: suspending, Seed: 168},
	{Without: search.Rules(S5Pending), Breaks: I3, Scope: suspending, Seed: 141},
	{Without: search.Rules(M1Attempt), Breaks: I4, Scope: movingBack, Seed: 26},
	{Without: search.Rules(M1Named), Breaks: I4, Scope: handedOver},
	{Without: search.Rules(M2), Breaks: I4, Scope: writes1, Seed: 2},
	{Without: search.Rules(M3Leader), Breaks: I4, Scope: applySlow, Seed: 435},
	{Without: search.Rules(M3Term), Breaks: I4, Scope: deposedMove, Seed: 5029},
	{Without: search.Rules(M5), Breaks: FalseEnd, Scope: lagging, Seed: 7},
	{Without: search.Rules(M6), Breaks: 0, Scope: moving},
	{Without: search.Rules(L3), Breaks: I1, Scope: localPausing, Seed: 60},
	{Without: search.Rules(L7), Breaks: I5, Scope: localRetry, Seed: 500},
	{Without: search.Rules(L8Expires), Breaks: I5, Scope: localSlow, Seed: 600},
	{Without: search.Rules(L8Rests), Breaks: I3, Scope: localSlow},
	{Without: search.Rules(L8Suspended), Breaks: I3, Scope: localSuspend, Seed: 150},
	{Without: search.Rules(L8Touch), Breaks: I1, Scope: localCalm},
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

// The fewer invariants, the more of a state can be forgotten.
var completes = slices.Concat(
	each(whole("calm", func(*Scope) {}), false, I1, I3, I4),
	each(whole("losing", func(s *Scope) { s.Most[Losses] = 1 }), true, I1, I3, I4),
	each(whole("pausing", func(s *Scope) { s.Most[Pauses] = 1 }), true, I1, I3, I4),
	each(small("whole, the clock stops", func(s *Scope) { s.Ticks, s.Rounds, s.RunFor = 3, 1, 1 }), true, I1, I3, I8),
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
func each(scope *Scope, wide bool, invariants ...search.Invariants) []check.Whole[*Scope] {
	var all []check.Whole[*Scope]
	for _, i := range invariants {
		all = append(all, check.Whole[*Scope]{Scope: scope, For: i, Wide: wide})
	}
	return all
}
