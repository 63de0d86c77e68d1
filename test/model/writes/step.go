package writes

import "fmt"

// step is one action in the making: a copy of the state before the action, which the action changes.
type step struct {
	State
	scope   *Scope
	without Without
	// telling says that story is wanted: the effects of the action, beyond its name.
	telling bool
	story   []string
	// watch, if set, is told of each command that changes the replicated state, with what came of it.
	watch func(entry)
}

func (x *step) obeys(r Rule) bool { return !x.without.has(r) }

func (x *step) say(format string, args ...any) {
	if x.telling {
		x.story = append(x.story, fmt.Sprintf(format, args...))
	}
}

func (x *step) tell(e entry) {
	if x.watch != nil {
		x.watch(e)
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

// nobody is the instance of a session whose opener is not known.
const nobody = processes

// Initial returns the state in which all histories begin: process A has opened the session, and is connected to a node
// with a stream to the leader. Nothing is written.
func Initial(without Without) State {
	var s State
	s.Head.Attachment = 1
	if without.has(X5) {
		s.Head.Instance = nobody
	}
	s.Process[0] = process{Connected: 1, Attachment: 1, Stream: leading}
	return s
}
