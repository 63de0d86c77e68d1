package model

import (
	"fmt"
	"strings"
)

// step is one action in the making: a copy of the state before it, that the action changes.
type step struct {
	State
	scope   *Scope
	without Without
	forInv  Invariants // what is looked for
	// telling says that story is wanted: what the action did, beyond its name.
	telling bool
	story   []string
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

// spend takes one of the faults that the scope has, if one is left.
func (x *step) spend(kind int, most uint8) bool {
	if x.Spent[kind] >= most {
		return false
	}
	x.Spent[kind]++
	return true
}

func (x *step) runs(i int) bool { return x.Node[i].Rest == runs }

// Initial returns the state in which the histories of a scope begin: n1 leads term 1, its tracker starts, every stream
// is open, every session has just been opened by its owner; then the prelude.
func Initial(scope *Scope, without Without) State {
	x := initial(scope)
	x.without = without
	for _, line := range scope.Prelude {
		x.play(line)
	}
	x.Spent = [faultKinds]uint8{}
	return x.State
}

// play makes the step of a prelude that a line tells.
func (x *step) play(line string) {
	free := *x.scope
	free.Elections, free.Losses, free.Pauses, free.Moves = 9, 9, 9, 9
	scope := x.scope
	x.scope = &free
	defer func() { x.scope = scope }()
	for _, e := range possible(scope) {
		if e.String() == line && x.try(e) {
			return
		}
	}
	panic("a prelude has a step that is not possible: " + line)
}

func initial(scope *Scope) *step {
	x := &step{scope: scope}
	x.Now = scope.Timeout // so that moments before the history have names, too
	first := entry{Term: 1, Kind: opens}
	for i := range scope.nodes() {
		n := &x.Node[i]
		n.Term, n.Mono, n.Log[0], n.Len, n.Commit = 1, x.Now, first, 1, 1
	}
	x.Node[0].Role, x.Node[0].Voted = leader, 1
	x.Node[0].Log[1], x.Node[0].Len = entry{Term: 1, Kind: begins}, 2
	x.commit(0, 1)
	for i := 1; i < scope.nodes(); i++ {
		x.applyAll(i)
		x.replicate(0, i, 0)
	}
	for i := 1; i < scope.nodes(); i++ {
		x.replicate(0, i, 0)
	}
	for i := range scope.nodes() {
		x.applyAll(i)
	}
	x.startTracker(0, 0, 0)
	for i := 1; i < scope.nodes(); i++ {
		x.connect(i, 0, 0)
	}
	for s, owner := range scope.Owners {
		if scope.Local {
			x.Node[owner].Local[s] = local{On: 1, Last: x.Now, Real: x.Now}
			x.Truth.Session[s] = fate{Touched: x.Now, Known: x.Now}
			continue
		}
		x.Node[owner].Conns[s] = 1 << 1
		x.Node[owner].Table[s] = touch{Attachment: 1, Made: 1, At: x.Now}
		x.Truth.Session[s] = fate{Touched: x.Now, Known: x.Now, Served: 1}
		if scope.TakeOvers > 0 {
			x.Truth.Session[s].Named = 1
		}
	}
	return x
}

// named puts the arguments into an action's text: $a and $b are nodes, $s is a session, $n the plain number b.
func named(text string, a, b, s int) string {
	return strings.NewReplacer("$a", fmt.Sprintf("n%d", a+1), "$b", fmt.Sprintf("n%d", b+1), "$s",
		fmt.Sprintf("s%d", s+1),
		"$n", fmt.Sprint(b)).Replace(text)
}
