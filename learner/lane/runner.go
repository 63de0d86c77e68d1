package lane

import (
	"context"
	"sync"

	"holdfast/session"
)

// Runner drives a lane: it passes when the hub publishes a state. Safe for concurrent use.
type Runner struct {
	woken chan struct{}

	// lane is used with mu held, but for Detach and Watches.
	mu   sync.Mutex
	lane *Lane
}

// NewRunner returns a runner with a new lane.
func NewRunner(shared Shared, limits Limits) *Runner {
	r := &Runner{woken: make(chan struct{}, 1)}
	r.lane = New(shared, limits, r.wake)
	r.wake() // for what was published before the hub knew the lane
	return r
}

// wake makes Run pass soon.
func (r *Runner) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Do calls f with the lane, and then carries out what that left to do: the answers of reads that f brings about are
// filled by the caller, while others use the lane. f must not block.
func (r *Runner) Do(f func(*Lane)) {
	for _, job := range r.locked(f) {
		job.Do()
	}
}

func (r *Runner) locked(f func(*Lane)) []Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.lane)
	return r.lane.Work()
}

// Watches is [Lane.Watches].
func (r *Runner) Watches() int { return r.lane.Watches() }

// Detach is [Lane.Detach].
func (r *Runner) Detach(id session.ID, attachment, index uint64, why error) {
	r.lane.Detach(id, attachment, index, why)
}

// Run drives the lane through the states that the hub publishes, until ctx ends. Its owner calls [Lane.Tick].
func (r *Runner) Run(ctx context.Context) {
	for {
		select {
		case <-r.woken:
			r.Do(func(l *Lane) { l.Pass() })
		case <-ctx.Done():
			return
		}
	}
}
