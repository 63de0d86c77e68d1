package search

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Walked is the result of [Walk].
type Walked struct {
	// Walks counts the histories, Steps the steps in all of them.
	Walks, Steps int
	Took         time.Duration
	// Broken are the invariants that Story breaks, and Seed is the number of its history; 0 if the walks found nothing.
	Broken uint32
	Seed   uint64
	Story  []int
}

// Walk makes count random histories, until one breaks one of the invariants in wanted, or ctx ends. The first has the
// number seed, and the others follow it. The number determines the history.
func Walk[S comparable](ctx context.Context, m *Machine[S], wanted uint32, seed uint64, count int) Walked {
	begun := time.Now()
	var result Walked
	for n := range uint64(count) {
		if ctx.Err() != nil {
			break
		}
		history, broken := Once(m, seed+n)
		result.Walks++
		result.Steps += len(history)
		if broken &= wanted; broken != 0 {
			result.Broken, result.Seed, result.Story = broken, seed+n, history
			break
		}
	}
	result.Took = time.Since(begun)
	return result
}

// walkSteps bounds one history.
const walkSteps = 300

// Once makes the random history of one number, and lets it settle at its end. It returns what the history breaks.
func Once[S comparable](m *Machine[S], seed uint64) (history []int, broken uint32) {
	random := rand.New(rand.NewPCG(seed, 7))
	s := m.First
	dice := load(m, random)
	for tries := 0; tries < 20*walkSteps && len(history) < walkSteps; tries++ {
		event := dice.throw(random)
		possible, broken := m.Try(&s, event)
		if !possible {
			continue
		}
		history = append(history, event)
		if broken != 0 {
			return history, broken
		}
	}
	return history, m.Settle(s)
}

// dice throw events, each with a probability in proportion to its weight.
type dice struct {
	upTo []int // for each event, the sum of the weights up to it
}

// load makes the dice of one history: it multiplies each weight by a random factor, so that histories differ more.
func load[S comparable](m *Machine[S], random *rand.Rand) *dice {
	d := &dice{upTo: make([]int, m.Events)}
	total := 0
	for event := range m.Events {
		total += m.Weight(event) * [...]int{1, 2, 4, 8}[random.IntN(4)]
		d.upTo[event] = total
	}
	return d
}

func (d *dice) throw(random *rand.Rand) int {
	at, _ := slices.BinarySearch(d.upTo, 1+random.IntN(d.upTo[len(d.upTo)-1]))
	return at
}
