// Package search tries the histories of a state machine: every one of a small machine, nearest first, and random ones
// of a large one. The machines are models of a protocol, and a search looks for a history that breaks an invariant.
package search

import (
	"context"
	"hash/maphash"
	"slices"
	"time"
)

// Machine is a state machine. Its states are values of type S. What can happen in a state are events, which have the
// numbers from 0 to Events - 1.
type Machine[S comparable] struct {
	First  S
	Events int
	// Try takes an event. It reports false, and leaves the state as it is, if the event is not possible. broken are the
	// invariants that the event breaks, as a set of bits; then the history ends.
	Try func(s *S, event int) (possible bool, broken uint32)
	// Settle returns the invariants that are broken once everything has gone on from a state without new faults.
	Settle func(s S) (broken uint32)
	// Weight is how often a random walk tries an event.
	Weight func(event int) int
}

// Result is the result of [Explore].
type Result struct {
	// States counts the different states that were seen. Depth is the length of the longest history that reached one.
	States, Depth int
	// Complete reports that every state of the machine was seen.
	Complete bool
	Took     time.Duration
	// Broken are the invariants that Story breaks; 0 if the search found nothing.
	Broken uint32
	Story  []int
}

// Explore searches every state of a machine, nearest first, until a history breaks one of the invariants in wanted, or
// ctx ends, or the number of states passes the bound; 0 is no bound. A history that breaks another invariant is not
// followed further. A state is recognised by 64 bits of hash: among n states the chance to miss one is below
// n*n / 2^65.
func Explore[S comparable](ctx context.Context, m *Machine[S], wanted uint32, states int) Result {
	begun := time.Now()
	e := explorer[S]{Machine: m, wanted: wanted, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	e.reached(&m.First, origin{})
	var result Result
	for begin, end := 0, 1; begin < end && e.broken == 0; begin, end = end, len(e.origins) {
		if ctx.Err() != nil || states > 0 && len(e.origins) >= states {
			break
		}
		e.expandAll(begin)
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
type explorer[S comparable] struct {
	*Machine[S]
	wanted  uint32
	seed    maphash.Seed
	seen    map[uint64]struct{}
	origins []origin
	level   []S

	broken uint32
	last   origin
	// atOnce says that the first state is broken, without any event.
	atOnce bool
}

// origin is how a state was first reached: from which state, by which event.
type origin struct {
	state uint32
	event uint16
}

// reached takes a state in if it is new.
func (e *explorer[S]) reached(s *S, from origin) {
	hash := maphash.Comparable(e.seed, *s)
	if _, old := e.seen[hash]; old {
		return
	}
	e.seen[hash] = struct{}{}
	e.origins = append(e.origins, from)
	e.level = append(e.level, *s)
}

// expandAll goes on from the states of the present depth, the first of which has the number begin.
func (e *explorer[S]) expandAll(begin int) {
	level := e.level
	e.level = nil
	for i := range level {
		if e.expand(&level[i], begin+i); e.broken != 0 {
			return
		}
	}
}

// expand takes every event that is possible in a state.
func (e *explorer[S]) expand(from *S, number int) {
	if broken := e.Settle(*from) & e.wanted; broken != 0 {
		e.broken, e.last, e.atOnce = broken, e.origins[number], number == 0
		return
	}
	s := *from
	for event := range e.Events {
		possible, broken := e.Try(&s, event)
		if !possible {
			continue
		}
		at := origin{state: uint32(number), event: uint16(event)}
		switch {
		case broken&e.wanted != 0:
			e.broken, e.last = broken&e.wanted, at
			return
		case broken == 0:
			e.reached(&s, at)
		}
		s = *from
	}
}

// history follows what was found back to the beginning.
func (e *explorer[S]) history() (all []int) {
	if e.atOnce {
		return nil
	}
	for at := e.last; ; at = e.origins[at.state] {
		all = append(all, int(at.event))
		if at.state == 0 {
			slices.Reverse(all)
			return all
		}
	}
}
