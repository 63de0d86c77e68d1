package writes

import "holdfast/test/model/search"

// step is a running action, on the state before the action.
type step struct {
	*State
	search.Step
	scope *Scope
	// watch, if set, gets each command that changes the replicated state, with its outcome.
	watch func(entry)
}

// Machine returns the protocol as a state machine, without some rules.
func Machine(scope *Scope, without search.Without, wanted search.Invariants) *search.Machine[State] {
	return newStep(scope, without).machine(wanted)
}

func newStep(scope *Scope, without search.Without) *step {
	return &step{Step: search.Step{Protocol: &texts, Without: without}, scope: scope}
}

func (x *step) machine(wanted search.Invariants) *search.Machine[State] {
	events := possible()
	m := &search.Machine[State]{
		First: Initial(x.Without), Events: len(events), Wanted: wanted, Step: &x.Step,
		Try: func(s *State, event int) bool {
			x.State = s
			return x.try(events[event])
		},
		Weight:  func(event int) int { return actions[events[event].action].weight },
		Opening: "A has the session, through attachment 1",
		Name:    func(event int) string { return events[event].String() },
	}
	if wanted&I18 != 0 {
		m.Quiesce = func(s *State) {
			x.State = s
			x.quiesce(events)
		}
	}
	return m
}

func (x *step) record(e entry) {
	if x.watch != nil {
		x.watch(e)
	}
}

// spend uses up one of the scope's faults of a kind. It reports false when none is left.
func (x *step) spend(kind Fault) bool {
	if x.Spent[kind] >= x.scope.Most[kind] {
		return false
	}
	x.Spent[kind]++
	return true
}

// noInstance is the instance of a session with an unknown opener.
const noInstance = processes

// Initial returns the state in which all histories begin: process A has opened the session, and is connected to a node
// with a stream to the leader. Nothing is written.
func Initial(without search.Without) State {
	var s State
	s.Head.Attachment = 1
	if without.Has(X5) {
		s.Head.Instance = noInstance
	}
	s.Process[0] = process{Connected: 1, Attachment: 1, Stream: leading}
	return s
}
