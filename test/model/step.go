package model

import (
	"fmt"
	"strings"

	"holdfast/test/model/search"
)

// protocol has the rules in force, in one scope.
type protocol struct {
	search.Step
	scope *Scope
}

// step is a running action, on the state before the action.
//
// A gerund is one node in one of its roles within the step: replicating (Raft), tracking (the leader's tracker),
// relaying (a learner under one leader), serving (clients) and running (the process). Their methods are the actions. An
// entry that replicating applies reaches serving and tracking of the same node.
type step struct {
	*State
	protocol
	wanted search.Invariants // the invariants that the search is for
}

func newStep(scope *Scope, without search.Without) *step {
	return &step{State: new(State), protocol: protocol{search.Step{Protocol: &texts, Without: without}, scope}}
}

// Machine returns the protocol as a state machine, without some rules.
func Machine(scope *Scope, without search.Without, wanted search.Invariants) *search.Machine[State] {
	x, events := newStep(scope, without), possible(scope)
	x.wanted = wanted
	return &search.Machine[State]{
		First: Initial(scope, without), Events: len(events), Wanted: wanted, Step: &x.Step,
		Try: func(s *State, event int) bool {
			x.State = s
			return x.try(events[event])
		},
		Weight: func(event int) int { return actions[events[event].action].weight },
		Canonicalize: func(s *State) {
			x.State = s
			x.canonical()
		},
		Over: func(s *State) bool {
			x.State = s
			return x.over()
		},
		Opening: opening(scope),
		Name:    func(event int) string { return events[event].String() },
	}
}

// opening describes how every history of a scope begins.
func opening(scope *Scope) string {
	var b strings.Builder
	fmt.Fprintf(&b, "n1 leads term 1, all sessions were opened at %d", scope.Timeout)
	for _, line := range scope.Prelude {
		fmt.Fprintf(&b, "\n  -  %s", line)
	}
	return b.String()
}

// at is one node within a step.
type at struct {
	*step
	id int // n1 has 0
	*node
}

func (x *step) at(i int) at { return at{x, i, &x.Node[i]} }

func (a at) runs() bool { return a.Process.Rest == runs }

// spend uses up one of the scope's faults of a kind. It reports false when none is left.
func (x *step) spend(kind Fault) bool {
	if x.Spent[kind] >= x.scope.Most[kind] {
		return false
	}
	x.Spent[kind]++
	return true
}

// Initial returns the state in which the histories of a scope begin: n1 leads term 1, its tracker starts, every stream
// is open, every owner has just opened its sessions. The steps of the prelude follow.
func Initial(scope *Scope, without search.Without) State {
	x := newStep(scope, 0)
	x.begin()
	x.Without = without
	for _, line := range scope.Prelude {
		x.play(line)
	}
	x.Spent = Counts{}
	return *x.State
}

// play performs the step that a line of a prelude names.
func (x *step) play(line string) {
	free := *x.scope
	for _, kind := range []Fault{Elections, Losses, Pauses, Moves} {
		free.Most[kind] = 9
	}
	scope := x.scope
	x.scope = &free
	defer func() { x.scope = scope }()
	for _, e := range possible(scope) {
		if e.String() == line && x.try(e) {
			return
		}
	}
	panic("play a prelude: no such step is possible now: " + line)
}

// begin is the beginning without the prelude.
func (x *step) begin() {
	scope := x.scope
	x.Now = scope.Timeout // moments before the history are above 0, too
	first := entry{Term: 1, Kind: opens}
	for i := range scope.nodes() {
		n := &x.Node[i]
		n.Process.Mono = x.Now
		n.Raft.Term, n.Raft.Log[0], n.Raft.Len, n.Raft.Commit = 1, first, 1, 1
	}
	leads := x.replicating(0)
	leads.Raft.Role, leads.Raft.Voted = leader, 1
	leads.Raft.Log[1], leads.Raft.Len = entry{Term: 1, Kind: begins}, 2
	leads.commit(1)
	for i := 1; i < scope.nodes(); i++ {
		x.replicating(i).applyAll()
		leads.replicate(i)
	}
	for i := 1; i < scope.nodes(); i++ {
		leads.replicate(i)
	}
	for i := range scope.nodes() {
		x.replicating(i).applyAll()
	}
	x.tracking(0).start()
	for i := 1; i < scope.nodes(); i++ {
		x.relaying(i, 0).connect()
	}
	for s, owner := range scope.Owners {
		x.own(s, &x.Node[owner].Learner)
	}
}

// own starts the history of a session at its owner.
func (x *step) own(s int, owner *learner) {
	f := fate{Touched: x.Now, Known: x.Now}
	if x.scope.Local {
		owner.Local[s] = local{On: 1, Last: x.Now, Real: x.Now}
	} else {
		owner.Conns[s] = 1 << 1
		owner.Table[s] = touch{Attachment: 1, Made: 1, At: x.Now}
		f.Served = 1
		if x.scope.Most[TakeOvers] > 0 {
			f.Named = 1
		}
	}
	x.Truth.Session[s] = f
}

// named puts the arguments into an action's text: $a and $b are nodes, $s is a session, $n the plain number b.
func named(text string, a, b, s int) string {
	return strings.NewReplacer("$a", fmt.Sprintf("n%d", a+1), "$b", fmt.Sprintf("n%d", b+1), "$s",
		fmt.Sprintf("s%d", s+1),
		"$n", fmt.Sprint(b)).Replace(text)
}
