package model

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
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

// step returns a step from a state, under the rules of the search.
func (w *Search) step(from *State) step {
	return step{State: *from, protocol: protocol{w.Scope, w.Without}, forInv: w.For}
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
	e := explorer{Search: search, events: possible(search.Scope), seen: newSeen()}
	first := Initial(search.Scope, search.Without)
	e.seen.add(hash(&first), origin{})
	level := [][]byte{packed(nil, &first, 0)}
	result := Result{Complete: true}
	for len(level) > 0 {
		next := e.expand(ctx, level)
		if found := e.found; found != nil {
			result.Broken, result.Story = found.broken, e.history(*found)
			result.Depth, result.Complete = len(result.Story), false
			break
		}
		if ctx.Err() != nil || search.States > 0 && e.seen.count() >= search.States {
			result.Complete = len(next) == 0 && ctx.Err() == nil
			break
		}
		if len(next) > 0 {
			result.Depth++
		}
		level = next
	}
	result.States, result.Took = e.seen.count(), time.Since(begun)
	return result
}

// explorer is one search. A level holds the states at one depth, packed into chunks.
type explorer struct {
	Search
	events []event
	seen   *seen

	mu    sync.Mutex
	found *finding // guarded by mu
}

// finding is a history's last step: the state before it, by its number, and the event.
type finding struct {
	origin
	broken Invariants
}

// chunkSize is how many bytes of packed states a worker takes at once.
const chunkSize = 1 << 16

// expand returns all states that are one step away from those of a level and new.
func (e *explorer) expand(ctx context.Context, level [][]byte) [][]byte {
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		next    [][]byte
	)
	work := make(chan []byte)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			var mine [][]byte
			for chunk := range work {
				mine = e.chunk(ctx, chunk, mine)
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
func (e *explorer) chunk(ctx context.Context, chunk []byte, out [][]byte) [][]byte {
	var from State
	x := e.step(&from)
	for len(chunk) > 0 && ctx.Err() == nil {
		var number uint32
		number, chunk = unpack(&from, chunk)
		x.State = from
		if x.over() {
			continue
		}
		for i, ev := range e.events {
			if !x.try(ev) {
				continue // try has left the state as it was
			}
			out = e.reached(&x, origin{state: number, event: uint16(i)}, out)
			x.State = from
		}
	}
	return out
}

// reached adds the state of a step to out if it is new.
func (e *explorer) reached(x *step, at origin, out [][]byte) [][]byte {
	if x.Broken &= e.For; x.Broken != 0 {
		e.report(finding{at, x.Broken})
		return out
	}
	x.canonical()
	n, isNew := e.seen.add(hash(&x.State), at)
	if !isNew {
		return out
	}
	return appended(out, &x.State, n)
}

func appended(out [][]byte, s *State, number uint32) [][]byte {
	if last := len(out) - 1; last < 0 || len(out[last]) > chunkSize-int(stateSize) {
		out = append(out, make([]byte, 0, chunkSize+int(stateSize)))
	}
	last := len(out) - 1
	out[last] = packed(out[last], s, number)
	return out
}

// report keeps the first finding. All findings of one level have the same length.
func (e *explorer) report(f finding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		e.found = &f
	}
}

// history follows a finding back to the beginning.
func (e *explorer) history(f finding) []event {
	var back []event
	for at := f.origin; ; at = e.seen.origin(at.state) {
		back = append(back, e.events[at.event])
		if at.state == 0 {
			break
		}
	}
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}

// Story describes a history: one numbered line for each step, with the effects of the step.
func Story(scope *Scope, without Without, history []event) string {
	var b strings.Builder
	x := step{State: Initial(scope, without), protocol: protocol{scope, without}, telling: true}
	fmt.Fprintf(&b, "%v; n1 leads term 1, all sessions were opened at %d\n", without, scope.Timeout)
	for _, line := range scope.Prelude {
		fmt.Fprintf(&b, "  -  %s\n", line)
	}
	for i, e := range history {
		x.story = nil
		if !x.try(e) {
			fmt.Fprintf(&b, "%3d. %v: NOT POSSIBLE\n", i+1, e)
			break
		}
		fmt.Fprintf(&b, "%3d. %v", i+1, e)
		for n, line := range x.story {
			b.WriteString([]string{": ", "; "}[min(n, 1)] + line)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
