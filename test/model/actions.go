package model

// action is something that can happen: an order of guards, which leave the state as it is, and effects.
type action struct {
	// text tells it: $a and $b are nodes, $s is a session, $n a number.
	text string
	over params
	// weight is how often a random walk tries it.
	weight int
	do     func(x *step, a, b, c int) bool
}

// params are what an action is tried with.
type params uint8

const (
	once               params = iota
	eachNode                  // a
	eachPair                  // a, b
	eachNodeAndSession        // a, session b
	eachPairAndSession        // a, b, session c
	eachConnection            // a, attachment b, session c
)

// actions are all that can happen.
//
//nolint:gochecknoglobals // a table that nothing writes to
var actions = []action{
	{"an interval passes", once, 0, (*step).tick},

	{"$a stands for election", eachNode, 2, (*step).campaign},
	{"$a votes for $b", eachPair, 20, (*step).vote},
	{"$a counts a quorum of votes and leads", eachNode, 30, (*step).win},
	{"$a replicates its log to $b", eachPair, 40, (*step).replicate},
	{"$a applies an entry", eachNode, 40, (*step).apply},

	{"$a starts a tracker (R5)", eachNode, 30, (*step).startTracker},
	{"$a ends its tracker", eachNode, 3, (*step).endTracker},
	{"$a's tracker begins a round (R1)", eachNode, 50, (*step).beginRound},
	{"$a's relay takes its table for $b's heartbeat (T1)", eachPair, 60, (*step).take},
	{"$a's relay answers $b (R2)", eachPair, 60, (*step).answer},
	{"$a's tracker processes the answer of $b (R3, T5)", eachPair, 60, (*step).receive},
	{"$a's tracker processes an answer of $b on an older stream", eachPair, 20, (*step).receiveOld},
	{"$a's relay opens a stream to $b's tracker (T3)", eachPair, 40, (*step).connect},
	{"$a's tracker notices the end of $b's stream (E1)", eachPair, 15, (*step).notice},

	{"$a's tracker decides that s$n expires (E2)", eachNodeAndSession, 40, (*step).expire},
	{"$a's tracker marks s$n as closing", eachNodeAndSession, 20, (*step).mark},
	{"$a appends the close of s$n (E3)", eachNodeAndSession, 30, (*step).propose},
	{"$a's Raft refuses the close of s$n (E4)", eachNodeAndSession, 5, (*step).refuse},
	{"$a's tracker gives up waiting for the close of s$n", eachNodeAndSession, 10, (*step).giveUp},

	{"$a receives a touch of $s through attachment $n (T2)", eachConnection, 15, (*step).touch},
	{"a client asks $a to resume s$n (M1)", eachNodeAndSession, 3, (*step).resume},
	{"$a forwards its resume of $s to $b", eachPairAndSession, 30, (*step).forward},
	{"$a serves s$n (M3)", eachNodeAndSession, 40, (*step).serve},
	{"a client gives up its resume of s$n at $a", eachNodeAndSession, 1, (*step).abandon},
	{"$a proposes a write of $s through attachment $n (M2)", eachConnection, 2, (*step).write},

	{"the stream of $b to $a's tracker breaks", eachPair, 1, (*step).lose},
	{"$a is paused", eachNode, 1, (*step).pause},
	{"$a's machine is suspended", eachNode, 1, (*step).suspend},
	{"$a goes on, its clients were silent", eachNode, 5, (*step).wake},
	{"$a goes on, its clients' keep-alives wait in its sockets", eachNode, 5, (*step).wakeTouched},
	{"$a restarts with its disk", eachNode, 1, (*step).restart},

	// These last, and of scopes with local sessions only: what others do by chance stays as it is.
	{"$a receives a touch of s$n, which it alone knows (L4)", eachNodeAndSession, 15, (*step).touchLocal},
	{"$a ends s$n, which it alone knows (L3)", eachNodeAndSession, 40, (*step).expireLocal},
	{"$a asks $b to make $s global (L7)", eachPairAndSession, 5, (*step).upgrade},

	// Of scopes with take-overs only.
	{"the other process asks $a to take s$n over (M1)", eachNodeAndSession, 5, (*step).takeOver},
}

// locals and takeOvers are how many of the actions are about local sessions and about take-overs.
const locals, takeOvers = 3, 1

// offered reports whether a scope has the action with this number.
func (s *Scope) offered(action int) bool {
	switch fromEnd := len(actions) - action; {
	case fromEnd <= takeOvers:
		return s.TakeOvers > 0
	case fromEnd <= takeOvers+locals:
		return s.Local
	}
	return true
}

// counts returns how many values each argument of the action takes in a scope.
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
		return [3]int{n, int(scope.Moves+scope.TakeOvers+scope.Upgrades) + 2, s} // attachments count from 1
	case once:
	}
	return [3]int{1, 1, 1}
}

// event is one action with its arguments.
type event struct{ action, a, b, c uint8 }

// possible lists what can be tried in a scope.
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
		b++ // sessions count from 1 for people
	}
	return named(act.text, int(e.a), b, s)
}
