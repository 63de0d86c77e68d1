package writes

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
	events := possible()
	var result Walked
	for n := range uint64(walks.Count) {
		if ctx.Err() != nil {
			break
		}
		history, broken := walks.once(events, walks.Seed+n)
		result.Walks++
		result.Steps += len(history)
		if broken &= walks.For; broken != 0 {
			result.Broken, result.Seed, result.Story = broken, walks.Seed+n, history
			break
		}
	}
	result.Took = time.Since(begun)
	return result
}

// walkSteps bounds one history.
const walkSteps = 300

// once makes the history of one number, and lets it settle at its end.
func (w *Search) once(events []event, seed uint64) ([]event, Invariants) {
	random := rand.New(rand.NewPCG(seed, 7))
	first := Initial(w.Without)
	x := w.step(&first)
	dice := load(events, random)
	var history []event
	for tries := 0; tries < 20*walkSteps && len(history) < walkSteps; tries++ {
		e := dice.throw(random)
		if !x.try(e) {
			continue
		}
		history = append(history, e)
		if x.Broken != 0 {
			return history, x.Broken
		}
	}
	if !x.settles(events) {
		x.Broken |= I18
	}
	return history, x.Broken
}

// dice throw events, each with a probability in proportion to its weight.
type dice struct {
	events []event
	upTo   []int // for each event, the sum of the weights up to it
}

// load makes the dice of one history: it multiplies each weight by a random factor, so that histories differ more.
func load(events []event, random *rand.Rand) *dice {
	d := &dice{}
	total := 0
	for _, e := range events {
		weight := actions[e.action].weight * [...]int{1, 2, 4, 8}[random.IntN(4)]
		total += weight
		d.events, d.upTo = append(d.events, e), append(d.upTo, total)
	}
	return d
}

func (d *dice) throw(random *rand.Rand) event {
	at, _ := slices.BinarySearch(d.upTo, 1+random.IntN(d.upTo[len(d.upTo)-1]))
	return d.events[at]
}
