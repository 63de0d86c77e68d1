package watch

import (
	"fmt"
	"strings"

	"holdfast/test/model/search"
)

// action is something that can happen.
type action struct {
	// text describes it: $n is a node, $k a number or a kind.
	text string
	// nodes is the number of nodes to try it with, from and to the range of numbers.
	nodes, from, to uint8
	// progress: it happens without a trigger once faults have ended.
	progress bool
	// weight is how often a random walk tries it.
	weight int
	// do performs the action. It reports false when the action is not possible.
	do func(x *step, n int, k uint8) bool
}

//nolint:gochecknoglobals // a table that nothing changes
var actions = []action{
	{"$n applies an entry", nodes, 0, 1, true, 20, atNode((*step).onNodes, serving.apply)},
	{"$n's ring gets the changes (G1)", nodes, 0, 1, true, 20, atNode((*step).onNodes, serving.appends)},
	{
		"$n's dispatcher passes to $k (G1)", nodes, 1, 1 + maxLog, true, 20,
		func(x *step, n int, k uint8) bool { return x.onNodes().pass(n, k) },
	},
	{"the node resumes watches (V4)", 1, catchUp, catchUp + 1, true, 20, numbered((*step).onNodes, serving.serveAdd)},
	{"the node registers new watches (V2)", 1, newWatches, newWatches + 1, true, 20, numbered((*step).onNodes, serving.serveAdd)},
	{"the node reads (G2)", 1, 0, 1, true, 20, alone((*step).onNodes, serving.serveRead)},
	{"the node continues the read (G2)", 1, 0, 1, true, 20, alone((*step).onNodes, serving.afterRead)},
	{"the node accepts the write (G5)", 1, 0, 1, true, 20, alone((*step).onNodes, serving.serveWrite)},
	{"the client receives", 1, 0, 1, true, 30, alone((*step).atClient, sdk.receive)},
	{"the node sends its stamp (V5)", 1, 0, 1, true, 5, alone((*step).atClient, sdk.tick)},
	{"the log appends the write", 1, uint8(ownA), uint8(ownA) + 1, true, 10, numbered(itself, (*step).commit)},
	{"the client connects to $n", nodes, 0, 1, true, 10, atNode((*step).atClient, sdk.connect)},
	{"the client receives a read beside", 1, 0, 1, true, 10, alone((*step).atClient, sdk.receiveBeside)},
	{"the log appends $s", 1, 0, uint8(ownA), false, 10, numbered(itself, (*step).commit)},
	{"the client begins the watch $w", 1, watchAll, watchA + 1, false, 20, numbered((*step).atClient, sdk.watch)},
	{"the client ends the watch $w", 1, watchAll, watchA + 1, false, 3, numbered((*step).atClient, sdk.drop)},
	{"the client reads, for the watch $w", 1, watchData, watchData + 1, false, 10, numbered((*step).atClient, sdk.read)},
	{"the client reads, for the watch $w", 1, watchChild, watchChild + 1, false, 10, numbered((*step).atClient, sdk.read)},
	{"$n answers a read beside", nodes, 0, 1, false, 5, atNode((*step).atClient, sdk.beside)},
	{"the client writes", 1, 0, 1, false, 10, alone((*step).atClient, sdk.write)},
	{"the node answers a keep-alive (G4)", 1, 0, 1, false, 5, alone((*step).atClient, sdk.alive)},
	{"the client loses its connection", 1, 0, 1, false, 4, alone((*step).atClient, sdk.lose)},
	{"$n restores a snapshot (V3)", nodes, 0, 1, false, 4, atNode((*step).onNodes, serving.restore)},
	{"$n restarts (V3)", nodes, 0, 1, false, 4, atNode((*step).onNodes, serving.restart)},
}

// alone is an action without arguments, atNode an action at a node, numbered an action with a number or kind. as is the
// side that performs it.
func alone[X any](as func(*step) X, do func(X) bool) func(*step, int, uint8) bool {
	return func(x *step, _ int, _ uint8) bool { return do(as(x)) }
}

func atNode[X any](as func(*step) X, do func(X, int) bool) func(*step, int, uint8) bool {
	return func(x *step, n int, _ uint8) bool { return do(as(x), n) }
}

func numbered[X any, K ~int | ~uint8](as func(*step) X, do func(X, K) bool) func(*step, int, uint8) bool {
	return func(x *step, _ int, k uint8) bool { return do(as(x), K(k)) }
}

func itself(x *step) *step { return x }

// choice is an action with its arguments.
type choice struct{ action, node, number uint8 }

func (c choice) String() string {
	return strings.NewReplacer("$n", fmt.Sprintf("n%d", c.node+1), "$k", fmt.Sprint(c.number), "$w", name(int(c.number)),
		"$s", fmt.Sprintf("an entry of kind %d", c.number)).Replace(actions[c.action].text)
}

// name is that of a watch.
func name(w int) string {
	return [...]string{"of all", "of A", "of A's data", "of A's existence", "of children", ""}[min(w, watches)]
}

// possible returns all candidate choices. Those of progress come first.
func possible() (all []choice) {
	for _, progress := range []bool{true, false} {
		for a, act := range actions {
			if act.progress != progress {
				continue
			}
			for n := range act.nodes {
				for k := act.from; k < act.to; k++ {
					all = append(all, choice{uint8(a), n, k})
				}
			}
		}
	}
	return all
}

// try performs a choice. It reports false, and leaves the state unchanged, when the choice is not possible.
func (x *step) try(c choice) bool {
	before := *x.State
	if x.full = false; actions[c.action].do(x, int(c.node), c.number) && !x.full {
		return true
	}
	*x.State = before
	return false
}

// would reports whether a choice is possible.
func (x *step) would(c choice) bool {
	s := *x.State
	y := step{State: &s, Step: search.Step{Protocol: x.Protocol, Without: x.Without}, scope: x.scope}
	return y.try(c)
}

// progressRounds bounds the rounds of all progress actions before a request counts as never answered.
const progressRounds = 60

// quiesce performs all actions of progress, and then checks what must have happened. It changes x.
func (x *step) quiesce(all []choice) {
	for range progressRounds {
		progress := false
		for _, c := range all {
			if !actions[c.action].progress {
				break
			}
			if x.Tracing() && x.would(c) {
				x.Say("%v:", c)
			}
			progress = x.try(c) || progress
		}
		if !progress {
			break
		}
	}
	if x.Broken == 0 {
		x.asOracle().checkQuiescent()
	}
}
