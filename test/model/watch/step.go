package watch

import "holdfast/test/model/search"

// step is a running action, on the state before the action.
type step struct {
	*State
	search.Step
	scope *Scope
	// full reports that an array is full: the action is not possible.
	full bool
}

// spend uses up one of the scope's faults of a kind. It reports false when none is left.
func (x *step) spend(kind Fault) bool {
	if x.Spent[kind] >= x.scope.Most[kind] {
		return false
	}
	x.Spent[kind]++
	return true
}

// Initial returns the state in which all histories begin: the client is connected to the first node, and the log is
// empty.
func Initial() (s State) {
	for n := range s.Node {
		s.Node[n].Start = end(0)
	}
	s.Conn.Node = 1
	return s
}

// Machine returns the protocol as a state machine, without some rules.
func Machine(scope *Scope, without search.Without, wanted search.Invariants) *search.Machine[State] {
	x := &step{Step: search.Step{Protocol: &texts, Without: without}, scope: scope}
	all := possible()
	return &search.Machine[State]{
		First: Initial(), Events: len(all), Wanted: wanted, Step: &x.Step,
		Try: func(s *State, event int) bool {
			x.State = s
			return x.try(all[event])
		},
		Quiesce: func(s *State) {
			x.State = s
			x.quiesce(all)
		},
		Weight:  func(event int) int { return actions[all[event].action].weight },
		Opening: "the client is connected to n1",
		Name:    func(event int) string { return all[event].String() },
	}
}

// The sides of a step: nodes, the client, and the oracle.
type (
	serving struct{ *step }
	sdk     struct{ *step }
	oracle  struct{ *step }
)

func (x *step) onNodes() serving { return serving{x} }
func (x *step) atClient() sdk    { return sdk{x} }
func (x *step) asOracle() oracle { return oracle{x} }
