package watch

import (
	"fmt"
	"strings"

	"holdfast/test/model/search"
)

// step is one action in the making: a copy of the state before the action, which the action changes.
type step struct {
	State
	scope   *Scope
	without Without
	// full says that an array is full: the action is not possible.
	full bool
	// telling says that story is wanted: the effects of the action, beyond its name.
	telling bool
	story   []string
	// settling, if set, is told of what goes on by itself.
	settling func(choice)
}

func (x *step) obeys(r Rule) bool { return !x.without.has(r) }

func (x *step) say(format string, args ...any) {
	if x.telling {
		x.story = append(x.story, fmt.Sprintf(format, args...))
	}
}

// breaks notes that this history breaks the invariant.
func (x *step) breaks(i Invariants, why string, args ...any) {
	x.Broken |= i
	x.say("BREAKS "+i.String()+": "+why, args...)
}

// spend takes one of the scope's faults of a kind. It reports false when none is left.
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

// Search says what to search, and under which rules.
type Search struct {
	Scope   *Scope
	Without Without
}

func (w *Search) step(from *State) step {
	return step{State: *from, scope: w.Scope, without: w.Without}
}

// Machine returns the state machine of the protocol in a scope.
func (w *Search) Machine() *search.Machine[State] {
	all := possible()
	return &search.Machine[State]{
		First: Initial(), Events: len(all),
		Try: func(s *State, event int) (bool, uint32) {
			x := w.step(s)
			if !x.try(all[event]) {
				return false, 0
			}
			*s = x.State
			return true, uint32(x.Broken)
		},
		Settle: func(s State) uint32 {
			x := w.step(&s)
			x.settle(all)
			return uint32(x.Broken)
		},
		Weight: func(event int) int { return actions[all[event].action].weight },
	}
}

// Story describes a history: one numbered line for each step, with the effects of the step.
func (w *Search) Story(history []int) string {
	var b strings.Builder
	all, first := possible(), Initial()
	x := w.step(&first)
	x.telling = true
	fmt.Fprintf(&b, "%v; the client is connected to n1\n", w.Without)
	tell := func(n string, what any) {
		fmt.Fprintf(&b, "%3s. %v: %s\n", n, what, strings.Join(x.story, "; "))
		x.story = nil
	}
	for i, e := range history {
		if !x.try(all[e]) {
			fmt.Fprintf(&b, "%3d. %v: NOT POSSIBLE\n", i+1, all[e])
			break
		}
		tell(fmt.Sprint(i+1), all[e])
	}
	if x.Broken == 0 {
		x.settling = func(e choice) { tell("-", e) }
		x.settle(all)
		tell("-", "in the end")
	}
	return b.String()
}

// The sides of a step: what nodes do, what the client does, and what the onlooker notes.
type (
	serving  struct{ *step }
	sdk      struct{ *step }
	onlooker struct{ *step }
)

func (x *step) onNodes() serving     { return serving{x} }
func (x *step) atClient() sdk        { return sdk{x} }
func (x *step) asOnlooker() onlooker { return onlooker{x} }
