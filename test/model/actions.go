package model

// action is one possible event. Its conditions leave the state unchanged; its effects change it.
type action struct {
	// text describes it: $a and $b are nodes, $s is a session, $n a number.
	text string
	over params
	// weight is how often a random walk tries it.
	weight int
	// do performs the action. It reports false, and leaves the state unchanged, when the action is not possible.
	do func(x *step, a, b, c int) bool
}

// params is the kind of an action's arguments.
type params uint8

const (
	once               params = iota
	eachNode                  // a
	eachPair                  // a, b
	eachNodeAndSession        // a, session b
	eachPairAndSession        // a, b, session c
	eachConnection            // a, attachment b, session c
)

// actions are all actions of the model. A random walk names them by their index.
//
//nolint:gochecknoglobals // a table that nothing changes
var actions = []action{
	{"an interval passes", once, 0, func(x *step, _, _, _ int) bool { return x.tick() }},

	{"$a campaigns", eachNode, 2, func(x *step, a, _, _ int) bool { return x.replicating(a).campaign() }},
	{"$a votes for $b", eachPair, 20, func(x *step, a, b, _ int) bool { return x.replicating(a).vote(b) }},
	{
		"$a counts a quorum of votes and leads", eachNode, 30,
		func(x *step, a, _, _ int) bool { return x.replicating(a).win() },
	},
	{
		"$a replicates its log to $b", eachPair, 40,
		func(x *step, a, b, _ int) bool { return x.replicating(a).replicate(b) },
	},
	{"$a applies an entry", eachNode, 40, func(x *step, a, _, _ int) bool { return x.replicating(a).apply() }},

	{"$a starts a tracker (R5)", eachNode, 30, func(x *step, a, _, _ int) bool { return x.tracking(a).start() }},
	{"$a ends its tracker", eachNode, 3, func(x *step, a, _, _ int) bool { return x.tracking(a).end() }},
	{
		"$a's tracker begins a round (R1)", eachNode, 50,
		func(x *step, a, _, _ int) bool { return x.tracking(a).beginRound() },
	},
	{
		"$a's relay reads its table for $b's heartbeat (T1)", eachPair, 60,
		func(x *step, a, b, _ int) bool { return x.relaying(a, b).readTable() },
	},
	{"$a's relay answers $b (R2)", eachPair, 60, func(x *step, a, b, _ int) bool { return x.relaying(a, b).answer() }},
	{
		"$a's tracker processes the answer of $b (R3, T5)", eachPair, 60,
		func(x *step, a, b, _ int) bool { return x.tracking(a).receive(b) },
	},
	{
		"$a's tracker processes an answer of $b on an older stream", eachPair, 20,
		func(x *step, a, b, _ int) bool { return x.tracking(a).receiveOld(b) },
	},
	{
		"$a's relay opens a stream to $b's tracker (T3)", eachPair, 40,
		func(x *step, a, b, _ int) bool { return x.relaying(a, b).connect() },
	},
	{
		"$a's tracker notices the end of $b's stream (E1)", eachPair, 15,
		func(x *step, a, b, _ int) bool { return x.tracking(a).notice(b) },
	},

	{
		"$a's tracker decides that s$n expires (E2)", eachNodeAndSession, 40,
		func(x *step, a, b, _ int) bool { return x.tracking(a).expire(b) },
	},
	{
		"$a's tracker marks s$n as closing", eachNodeAndSession, 20,
		func(x *step, a, b, _ int) bool { return x.tracking(a).mark(b) },
	},
	{
		"$a appends the close of s$n (E3)", eachNodeAndSession, 30,
		func(x *step, a, b, _ int) bool { return x.tracking(a).propose(b) },
	},
	{
		"$a's Raft refuses the close of s$n (E4)", eachNodeAndSession, 5,
		func(x *step, a, b, _ int) bool { return x.tracking(a).refuse(b) },
	},
	{
		"$a's tracker gives up waiting for the close of s$n", eachNodeAndSession, 10,
		func(x *step, a, b, _ int) bool { return x.tracking(a).giveUp(b) },
	},

	{
		"$a receives a touch of $s through attachment $n (T2)", eachConnection, 15,
		func(x *step, a, b, c int) bool { return x.serving(a).touch(b, c) },
	},
	{
		"a client asks $a to resume s$n (M1)", eachNodeAndSession, 3,
		func(x *step, a, b, _ int) bool { return x.serving(a).resume(b) },
	},
	{
		"$a forwards its resume of $s to $b", eachPairAndSession, 30,
		func(x *step, a, b, c int) bool { return x.serving(a).forward(b, c) },
	},
	{"$a serves s$n (M3)", eachNodeAndSession, 40, func(x *step, a, b, _ int) bool { return x.serving(a).serve(b) }},
	{
		"a client gives up its resume of s$n at $a", eachNodeAndSession, 1,
		func(x *step, a, b, _ int) bool { return x.serving(a).abandon(b) },
	},
	{
		"$a proposes a write of $s through attachment $n (M2)", eachConnection, 2,
		func(x *step, a, b, c int) bool { return x.serving(a).write(b, c) },
	},

	{
		"the stream of $b to $a's tracker breaks", eachPair, 1,
		func(x *step, a, b, _ int) bool { return x.relaying(b, a).lose() },
	},
	{"$a is paused", eachNode, 1, func(x *step, a, _, _ int) bool { return x.running(a).pause() }},
	{"$a's machine is suspended", eachNode, 1, func(x *step, a, _, _ int) bool { return x.running(a).suspend() }},
	{"$a continues, its clients were silent", eachNode, 5, func(x *step, a, _, _ int) bool {
		return x.running(a).wake()
	}},
	{
		"$a continues, its clients' keep-alives wait in its sockets", eachNode, 5,
		func(x *step, a, _, _ int) bool { return x.running(a).wakeTouched() },
	},
	{"$a restarts with its disk", eachNode, 1, func(x *step, a, _, _ int) bool { return x.running(a).restart() }},

	// Last, and only in scopes with local sessions, so that the random walks of other scopes stay the same.
	{
		"$a receives a touch of s$n, which it alone knows (L4)", eachNodeAndSession, 15,
		func(x *step, a, b, _ int) bool { return x.serving(a).touchLocal(b) },
	},
	{
		"$a ends s$n, which it alone knows (L3)", eachNodeAndSession, 40,
		func(x *step, a, b, _ int) bool { return x.serving(a).expireLocal(b) },
	},
	{
		"$a asks $b to make $s global (L7)", eachPairAndSession, 5,
		func(x *step, a, b, c int) bool { return x.serving(a).upgrade(b, c) },
	},

	// Only in scopes with take-overs.
	{
		"the other process asks $a to take s$n over (M1)", eachNodeAndSession, 5,
		func(x *step, a, b, _ int) bool { return x.serving(a).takeOver(b) },
	},
}

// locals and takeOvers are the numbers of actions about local sessions and about take-overs.
const locals, takeOvers = 3, 1

// offered reports whether a scope has the action with this number.
func (s *Scope) offered(action int) bool {
	switch fromEnd := len(actions) - action; {
	case fromEnd <= takeOvers:
		return s.Most[TakeOvers] > 0
	case fromEnd <= takeOvers+locals:
		return s.Local
	}
	return true
}

// counts returns how many values each argument of the action has in a scope.
func (p params) counts(scope *Scope) [3]int {
	n, s := scope.nodes(), scope.sessions()
	switch p {
	case eachNode:
		return [3]int{n, 1, 1}
	case eachPair:
		return [3]int{n, n, 1}
	case eachNodeAndSession:
		return [3]int{n, s, 1}
	case eachPairAndSession:
		return [3]int{n, n, s}
	case eachConnection:
		attachments := int(scope.Most[Moves]+scope.Most[TakeOvers]+scope.Most[Upgrades]) + 2 // attachments count from 1
		return [3]int{n, attachments, s}
	case once:
	}
	return [3]int{1, 1, 1}
}

// event is one action with its arguments.
type event struct{ action, a, b, c uint8 }

// possible lists all candidate events of a scope.
func possible(scope *Scope) []event {
	var all []event
	for i, act := range actions {
		if !scope.offered(i) {
			continue
		}
		counts := act.over.counts(scope)
		for a := range counts[0] {
			for b := range counts[1] {
				for c := range counts[2] {
					all = append(all, event{uint8(i), uint8(a), uint8(b), uint8(c)})
				}
			}
		}
	}
	return all
}

func (x *step) try(e event) bool { return actions[e.action].do(x, int(e.a), int(e.b), int(e.c)) }

func (e event) String() string {
	act, b, s := actions[e.action], int(e.b), int(e.c)
	if act.over == eachNodeAndSession {
		b++ // in texts, sessions count from 1
	}
	return named(act.text, int(e.a), b, s)
}
