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
	Duration     time.Duration
	// Broken are the invariants that Story breaks, and Seed is the number of its history; 0 if the walks found nothing.
	Broken Invariants
	Seed   uint64
	Story  []int
}

// Walk makes count random histories, until one breaks a wanted invariant, or ctx ends. The first has the number seed,
// and the others follow. The number determines the history. The story is shrunk until every step is needed.
func Walk[S any](ctx context.Context, m *Machine[S], seed uint64, count int) Walked {
	started := time.Now()
	var result Walked
	for n := range uint64(count) {
		if ctx.Err() != nil {
			break
		}
		history, broken := m.Once(seed + n)
		result.Walks++
		result.Steps += len(history)
		if broken != 0 {
			result.Broken, result.Seed, result.Story = broken, seed+n, m.shrink(history, broken)
			break
		}
	}
	result.Duration = time.Since(started)
	return result
}

// walkSteps bounds a history of a machine in which no time passes.
const walkSteps = 300

// Once makes the random history of one number, and quiesces it at its end. It ends when no time is left, when nothing
// can break any more, or with a broken invariant.
func (m *Machine[S]) Once(seed uint64) (history []int, broken Invariants) {
	random := rand.New(rand.NewPCG(seed, 4))
	d := newDice(m, random)
	s := m.First
	for missed, tries := 0, 0; !m.over(&s); tries++ {
		event := d.throw(random)
		waited := d.time >= 0 && missed > d.patience
		if waited {
			event, missed = d.time, 0
		}
		if d.time < 0 && (len(history) == walkSteps || tries == 20*walkSteps) {
			break
		}
		if !m.Try(&s, event) {
			if waited {
				break
			}
			missed++
			continue
		}
		missed = 0
		history = append(history, event)
		if broken := m.broken(); broken != 0 {
			return history, broken
		}
	}
	return history, m.quiesce(s)
}

// dice throw events, each with a probability in proportion to its weight.
type dice struct {
	events []int
	upTo   []int // for each event, the sum of the weights up to it
	// patience is how many throws in a row may show an impossible event before time passes; time is that event, or -1.
	patience, time int
}

// newDice makes the dice of one history. It multiplies each event's weight by a random factor, which may be 0. So
// histories differ more than with fair dice, and in some of them one node does well, or badly, for a long time.
func newDice[S any](m *Machine[S], random *rand.Rand) *dice {
	d := &dice{patience: 20 << random.IntN(5), time: -1}
	factors := [...][4]int{{1, 1, 1, 1}, {1, 2, 4, 8}, {0, 1, 1, 4}}[random.IntN(3)]
	total := 0
	for event := range m.Events {
		weight := m.Weight(event)
		if weight == 0 {
			d.time = event
		}
		if weight *= factors[random.IntN(4)]; weight > 0 {
			total += weight
			d.events, d.upTo = append(d.events, event), append(d.upTo, total)
		}
	}
	return d
}

func (d *dice) throw(random *rand.Rand) int {
	at, _ := slices.BinarySearch(d.upTo, 1+random.IntN(d.upTo[len(d.upTo)-1]))
	return d.events[at]
}

// shrink leaves steps out of a history while the rest still breaks one of the same invariants.
func (m *Machine[S]) shrink(history []int, broken Invariants) []int {
	for size := len(history) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(history); {
			tried := slices.Concat(history[:at], history[at+size:])
			if left, still := m.Replay(tried); still&broken != 0 {
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
