package model

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Walks is a search by random histories, for scopes that are too wide for Explore.
type Walks struct {
	Search
	// Seed is the number of the first history, Count how many follow each other. The number determines the history.
	Seed  uint64
	Count int
}

// Walked is the result of walks.
type Walked struct {
	// Walks counts the histories, Steps the steps in all of them.
	Walks, Steps int
	Took         time.Duration
	// Broken are the invariants that Story breaks, and Seed is the number of its history; 0 if the walks found nothing.
	Broken Invariants
	Seed   uint64
	Story  []event
}

// Walk makes random histories until one breaks an invariant, or ctx ends.
func Walk(ctx context.Context, walks Walks) Walked {
	begun := time.Now()
	first, events := Initial(walks.Scope, walks.Without), possible(walks.Scope)
	var result Walked
	for n := range uint64(walks.Count) {
		if ctx.Err() != nil {
			break
		}
		history, broken := walks.once(&first, events, walks.Seed+n)
		result.Walks++
		result.Steps += len(history)
		if broken != 0 {
			result.Broken, result.Seed = broken, walks.Seed+n
			result.Story = walks.shrink(history, broken)
			break
		}
	}
	result.Took = time.Since(begun)
	return result
}

// once makes the history of one number. It ends when the time of the scope is over.
func (w *Search) once(first *State, events []event, seed uint64) ([]event, Invariants) {
	random := rand.New(rand.NewPCG(seed, 4))
	dice := load(events, random)
	x := w.step(first)
	var history []event
	for missed := 0; !x.over(); {
		e := dice.throw(random)
		if missed > dice.patience {
			e, missed = event{}, 0 // nothing happens for a while: time passes
		}
		if !x.try(e) {
			if missed++; missed == 1 && e == (event{}) {
				break
			}
			continue
		}
		missed = 0
		history = append(history, e)
		if x.Broken &= w.For; x.Broken != 0 {
			return history, x.Broken
		}
	}
	return history, 0
}

// dice throw events, each with a probability in proportion to its weight.
type dice struct {
	events []event
	upTo   []int // for each event, the sum of the weights up to it
	// patience is how many throws in a row may show an impossible event before time passes.
	patience int
}

// load makes the dice of one history. It multiplies each event's weight by a random factor, which may be 0. So
// histories differ more than with fair dice, and in some of them one node does well, or badly, for a long time.
func load(events []event, random *rand.Rand) *dice {
	d := &dice{patience: 20 << random.IntN(5)}
	factors := [...][4]int{{1, 1, 1, 1}, {1, 2, 4, 8}, {0, 1, 1, 4}}[random.IntN(3)]
	total := 0
	for _, e := range events {
		weight := actions[e.action].weight * factors[random.IntN(4)]
		if weight > 0 {
			total += weight
			d.events, d.upTo = append(d.events, e), append(d.upTo, total)
		}
	}
	return d
}

func (d *dice) throw(random *rand.Rand) event {
	at, _ := slices.BinarySearch(d.upTo, 1+random.IntN(d.upTo[len(d.upTo)-1]))
	return d.events[at]
}

// shrink leaves steps out of a history while the rest still breaks the same invariants.
func (w *Search) shrink(history []event, broken Invariants) []event {
	for size := len(history) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(history); {
			tried := append(append([]event(nil), history[:at]...), history[at+size:]...)
			if left, ok := w.replay(tried, broken); ok {
				history, shorter = left, true
			} else {
				at++
			}
		}
		if size = min(size, len(history)); !shorter || size > 1 {
			size /= 2
		}
	}
	return history
}

// replay takes the steps of a history that are possible. It returns them up to the step that breaks the invariants.
func (w *Search) replay(history []event, broken Invariants) ([]event, bool) {
	first := Initial(w.Scope, w.Without)
	x := w.step(&first)
	var done []event
	for _, e := range history {
		if !x.try(e) {
			continue
		}
		done = append(done, e)
		if x.Broken&broken != 0 {
			return done, true
		}
	}
	return nil, false
}
