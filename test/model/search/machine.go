// Package search tries the histories of a protocol: every history of a small scope, breadth first, and random histories
// of a large scope. A search tries to find a history that breaks an invariant. It should succeed without a rule, and
// fail with all rules.
//
// The protocol is a [Machine]. Packages model, writes and watch have one each.
package search

import (
	"fmt"
	"strings"
)

// Machine is a protocol in a scope. S is a state, and has byte fields only. What can happen in a state are events, with
// the numbers from 0 to Events - 1. Not safe for concurrent use.
type Machine[S any] struct {
	First  S
	Events int
	// Wanted are the invariants to break. A history that breaks another invariant continues.
	Wanted Invariants
	// Step gets from Try and Quiesce what they break and do.
	Step *Step
	// Try performs an event. It reports false, and leaves the state unchanged, if the event is not possible.
	Try func(s *S, event int) bool
	// Weight is how often a random walk tries an event. An event without weight is the passing of time: it comes when
	// nothing else has been possible for a while.
	Weight func(event int) int

	// Quiesce, if set, continues a state without new faults until nothing more happens, and then checks what must have
	// happened.
	Quiesce func(s *S)
	// Canonicalize, if set, replaces a state by its canonical form, without facts that no longer matter.
	Canonicalize func(s *S)
	// Over, if set, reports whether nothing can break any more.
	Over func(s *S) bool

	// Opening and Name are for stories: how every history begins, in whole lines, and what an event is called.
	Opening string
	Name    func(event int) string
}

// Invariants is a set of the properties that a protocol promises, a bit for each.
type Invariants uint32

// Rule is the number of a part of a protocol that can be left out on its own.
type Rule uint8

// Without is a set of rules to leave out. The zero value is the whole protocol.
type Without uint64

// Rules returns the set of these rules.
func Rules(left ...Rule) Without {
	var w Without
	for _, r := range left {
		w |= 1 << r
	}
	return w
}

// Has reports whether a rule is left out.
func (w Without) Has(r Rule) bool { return w&(1<<r) != 0 }

// Protocol has the names of a protocol's rules and invariants, by their numbers.
type Protocol struct {
	Rules      []Text
	Invariants []string
}

// Text has the name of a rule, and the consequence of leaving it out.
type Text [2]string

// Names returns the names of the rules that are left out.
func (p *Protocol) Names(w Without) string {
	return p.list(w, ", ", func(t Text) string { return t[0] })
}

// Texts names the left-out rules.
func (p *Protocol) Texts(w Without) string {
	return p.list(w, "; ", func(t Text) string { return t[1] })
}

func (p *Protocol) list(w Without, between string, of func(Text) string) string {
	var all []string
	for r, text := range p.Rules {
		if w.Has(Rule(r)) {
			all = append(all, of(text))
		}
	}
	return strings.Join(all, between)
}

// Broken returns the names of invariants.
func (p *Protocol) Broken(i Invariants) string {
	var names []string
	for n, name := range p.Invariants {
		if i&(1<<n) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// Step is the part of a machine's steps that the search uses: the rules in force, and what a step breaks and does.
type Step struct {
	Protocol *Protocol
	Without  Without
	// Broken are the invariants that the step has broken.
	Broken Invariants
	// trace, if set, gets the effects of the step, beyond the event's name.
	trace func(effect string)
}

// Obeys reports whether a rule is in force.
func (x *Step) Obeys(r Rule) bool { return !x.Without.Has(r) }

// Tracing reports whether Say has a listener.
func (x *Step) Tracing() bool { return x.trace != nil }

// Say describes an effect of the step.
func (x *Step) Say(format string, args ...any) {
	if x.trace != nil {
		x.trace(fmt.Sprintf(format, args...))
	}
}

// Breaks notes that the history breaks invariants.
func (x *Step) Breaks(i Invariants, why string, args ...any) {
	x.Broken |= i
	if x.trace != nil {
		x.Say("BREAKS "+x.Protocol.Broken(i)+": "+why, args...)
	}
}

// broken returns which of the wanted invariants the last step has broken, and clears them.
func (m *Machine[S]) broken() Invariants {
	broken := m.Step.Broken & m.Wanted
	m.Step.Broken = 0
	return broken
}

// quiesce runs Quiesce on a copy of a state, and returns the invariants that are broken then.
func (m *Machine[S]) quiesce(s S) Invariants {
	if m.Quiesce == nil {
		return 0
	}
	m.Quiesce(&s)
	return m.broken()
}

func (m *Machine[S]) over(s *S) bool { return m.Over != nil && m.Over(s) }

// Replay performs the possible events of a history, and quiesces the last state. It returns the events up to the first
// that breaks a wanted invariant, and the broken invariants.
func (m *Machine[S]) Replay(history []int) (done []int, broken Invariants) {
	s := m.First
	for _, event := range history {
		if !m.Try(&s, event) {
			continue
		}
		done = append(done, event)
		if broken := m.broken(); broken != 0 {
			return done, broken
		}
	}
	return done, m.quiesce(s)
}

// Story describes a history: one numbered line for each event, with its effects.
func (m *Machine[S]) Story(history []int) string {
	var b strings.Builder
	whole := "the whole protocol"
	if m.Step.Without != 0 {
		whole = "without " + m.Step.Protocol.Names(m.Step.Without)
	}
	fmt.Fprintf(&b, "%s; %s\n", whole, m.Opening)
	var effects []string
	m.Step.trace = func(effect string) { effects = append(effects, effect) }
	defer func() { m.Step.trace = nil }()
	s := m.First
	for i, event := range history {
		effects = nil
		if !m.Try(&s, event) {
			fmt.Fprintf(&b, "%3d. %s: NOT POSSIBLE\n", i+1, m.Name(event))
			break
		}
		fmt.Fprintf(&b, "%3d. %s: %s\n", i+1, m.Name(event), strings.Join(effects, "; "))
	}
	if effects = nil; m.broken() == 0 && m.quiesce(s) != 0 {
		b.WriteString("  -  without new faults:\n")
		for _, effect := range effects {
			fmt.Fprintf(&b, "  -  %s\n", effect)
		}
	}
	return b.String()
}
