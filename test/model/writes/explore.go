package writes

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// Search says what to search, under which rules, and for what.
type Search struct {
	Scope   *Scope
	Without Without
	// For are the invariants to break. A history that breaks another invariant is not followed further.
	For Invariants
	// States bounds the number of states, 0 for no bound.
	States int
}

func (w *Search) step(from *State) step {
	return step{State: *from, scope: w.Scope, without: w.Without}
}

// Result is the result of a search.
type Result struct {
	// States counts the different states that were seen. Depth is the length of the longest history that reached one.
	States, Depth int
	// Complete reports that every state of the scope was seen.
	Complete bool
	Took     time.Duration
	// Broken are the invariants that Story breaks; 0 if the search found nothing.
	Broken Invariants
	Story  []event
}

// Explore searches every state of a scope, nearest first, until a history breaks an invariant or ctx ends. It
// recognises a state by 64 bits of hash: among n states the chance to miss one is below n*n / 2^65.
func Explore(ctx context.Context, search Search) Result {
	begun := time.Now()
	e := explorer{Search: search, events: possible(), seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	first := Initial(search.Without)
	e.reached(&first, origin{})
	var result Result
	for begin, end := 0, 1; begin < end && e.broken == 0; begin, end = end, len(e.origins) {
		if ctx.Err() != nil || search.States > 0 && len(e.origins) >= search.States {
			break
		}
		level := e.level
		e.level = nil
		for i := range level {
			if e.expand(&level[i], begin+i); e.broken != 0 {
				break
			}
		}
		if len(e.level) > 0 {
			result.Depth++
		}
	}
	result.States, result.Took = len(e.origins), time.Since(begun)
	result.Complete = e.broken == 0 && len(e.level) == 0
	if result.Broken = e.broken; e.broken != 0 {
		result.Story = e.history()
		result.Depth = len(result.Story)
	}
	return result
}

// explorer is one search. The states of the present depth lie in level; of all others there is only where they came
// from.
type explorer struct {
	Search
	events  []event
	seed    maphash.Seed
	seen    map[uint64]struct{}
	origins []origin
	level   []State

	broken Invariants
	last   origin
}

// origin is how a state was first reached: from which state, by which event.
type origin struct {
	state uint32
	event uint16
}

// reached takes a state in if it is new.
func (e *explorer) reached(s *State, from origin) {
	hash := maphash.Comparable(e.seed, *s)
	if _, old := e.seen[hash]; old {
		return
	}
	e.seen[hash] = struct{}{}
	e.origins = append(e.origins, from)
	e.level = append(e.level, *s)
}

// expand takes every event that is possible in a state.
func (e *explorer) expand(from *State, number int) {
	x := e.step(from)
	if e.For&I18 != 0 && !x.settles(e.events) && x.Broken == 0 {
		e.broken, e.last = I18, e.origins[number]
		return
	}
	x.State = *from
	for i, ev := range e.events {
		if !x.try(ev) {
			continue
		}
		at := origin{state: uint32(number), event: uint16(i)}
		switch {
		case x.Broken&e.For != 0:
			e.broken, e.last = x.Broken&e.For, at
			return
		case x.Broken == 0:
			e.reached(&x.State, at)
		}
		x.State = *from
	}
}

// history follows what was found back to the beginning.
func (e *explorer) history() (all []event) {
	for at := e.last; ; at = e.origins[at.state] {
		all = append(all, e.events[at.event])
		if at.state == 0 {
			slices.Reverse(all)
			return all
		}
	}
}

// Story describes a history: one numbered line for each step, with the effects of the step.
func Story(scope *Scope, without Without, history []event) string {
	var b strings.Builder
	x := step{State: Initial(without), scope: scope, without: without, telling: true}
	fmt.Fprintf(&b, "%v; A has the session, through attachment 1\n", without)
	for i, e := range history {
		x.story = nil
		if !x.try(e) {
			fmt.Fprintf(&b, "%3d. %v: NOT POSSIBLE\n", i+1, e)
			break
		}
		fmt.Fprintf(&b, "%3d. %v: %s\n", i+1, e, strings.Join(x.story, "; "))
	}
	if x.Broken == 0 && !x.settles(possible()) {
		b.WriteString("  -  BREAKS I18: a write is never answered\n")
	}
	return b.String()
}
