package search

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Result is the result of [Explore].
type Result struct {
	// States counts the different states that were seen. Depth is the length of the longest history that reached one.
	States, Depth int
	// Complete reports that every state of the scope was seen.
	Complete bool
	Duration time.Duration
	// Broken are the invariants that Story breaks; 0 if the search found nothing.
	Broken Invariants
	Story  []int
}

// Explore searches every state of a scope, nearest first, until a history breaks a wanted invariant, or ctx ends, or
// the number of states exceeds the bound; 0 is no bound. So it finds a shortest history. It recognises a state by 64
// bits of hash: among n states the probability to miss one is below n*n / 2^65.
//
// newMachine is called once for each processor: all search together.
func Explore[S any](ctx context.Context, newMachine func() *Machine[S], states int) Result {
	started := time.Now()
	e := newExplorer(newMachine)
	first := e.machines[0].First
	e.seen.add(hash(&first), origin{})
	if broken := e.machines[0].quiesce(first); broken != 0 {
		return Result{States: 1, Duration: time.Since(started), Broken: broken}
	}
	level := appended(nil, &first, 0)
	result := Result{Complete: true}
	for len(level) > 0 {
		next := e.expand(ctx, level)
		if found := e.found; found != nil {
			result.Broken, result.Story = found.broken, e.history(*found)
			result.Depth, result.Complete = len(result.Story), false
			break
		}
		if len(next) > 0 {
			result.Depth++
		}
		if ctx.Err() != nil || states > 0 && e.seen.count() >= states {
			result.Complete = len(next) == 0 && ctx.Err() == nil
			break
		}
		level = next
	}
	result.States, result.Duration = e.seen.count(), time.Since(started)
	return result
}

// explorer is one search. A level holds the states at one depth, packed into chunks.
type explorer[S any] struct {
	machines []*Machine[S]
	seen     *seen

	mu    sync.Mutex
	found *finding // guarded by mu
}

// finding is a history's last step: the state before it, by its number, and the event.
type finding struct {
	origin
	broken Invariants
}

func newExplorer[S any](newMachine func() *Machine[S]) *explorer[S] {
	mustBeBytes[S]()
	e := &explorer[S]{seen: newSeen()}
	for range runtime.GOMAXPROCS(0) {
		e.machines = append(e.machines, newMachine())
	}
	return e
}

// chunkSize is how many bytes of packed states a worker gets at once.
const chunkSize = 1 << 16

// expand returns the new states that are one step away from a level's states.
func (e *explorer[S]) expand(ctx context.Context, level [][]byte) [][]byte {
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		next    [][]byte
	)
	work := make(chan []byte)
	for _, m := range e.machines {
		workers.Go(func() {
			var mine [][]byte
			for chunk := range work {
				mine = e.chunk(ctx, m, chunk, mine)
			}
			mu.Lock()
			defer mu.Unlock()
			next = append(next, mine...)
		})
	}
	for i, chunk := range level {
		work <- chunk
		level[i] = nil // frees memory for the next level
	}
	close(work)
	workers.Wait()
	return next
}

// chunk expands the states of a chunk and adds the new states to out.
func (e *explorer[S]) chunk(ctx context.Context, m *Machine[S], chunk []byte, out [][]byte) [][]byte {
	var from, s S
	for len(chunk) > 0 && ctx.Err() == nil {
		var number uint32
		number, chunk = unpack(&from, chunk)
		if m.over(&from) {
			continue
		}
		s = from
		for event := range m.Events {
			if !m.Try(&s, event) {
				continue // Try has left the state unchanged
			}
			out = e.reached(m, &s, origin{state: number, event: uint16(event)}, out)
			s = from
		}
	}
	return out
}

// reached adds the state after a step to out if it is new.
func (e *explorer[S]) reached(m *Machine[S], s *S, at origin, out [][]byte) [][]byte {
	if broken := m.broken(); broken != 0 {
		e.report(finding{at, broken})
		return out
	}
	if m.Canonicalize != nil {
		m.Canonicalize(s)
	}
	n, isNew := e.seen.add(hash(s), at)
	if !isNew {
		return out
	}
	if broken := m.quiesce(*s); broken != 0 {
		e.report(finding{at, broken})
		return out
	}
	return appended(out, s, n)
}

func appended[S any](out [][]byte, s *S, number uint32) [][]byte {
	size := len(bytesOf(s))
	if last := len(out) - 1; last < 0 || len(out[last]) > chunkSize-size {
		out = append(out, make([]byte, 0, chunkSize+size))
	}
	last := len(out) - 1
	out[last] = packed(out[last], s, number)
	return out
}

// report keeps the first finding. All findings of one level have the same length.
func (e *explorer[S]) report(f finding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		e.found = &f
	}
}

// history follows a finding back to the beginning.
func (e *explorer[S]) history(f finding) (all []int) {
	for at := f.origin; ; at = e.seen.origin(at.state) {
		all = append(all, int(at.event))
		if at.state == 0 {
			slices.Reverse(all)
			return all
		}
	}
}
