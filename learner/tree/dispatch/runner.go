package dispatch

import (
	"context"
	"sync"

	"holdfast/session"
)

// Runner drives a dispatcher: it calls Pass when the hub publishes a state. Safe for concurrent use.
type Runner struct {
	woken chan struct{}

	// dispatcher is used with mu held, except for Detach and Watches.
	mu         sync.Mutex
	dispatcher *Dispatcher
}

// NewRunner returns a runner with a new dispatcher.
func NewRunner(shared Shared, limits Limits) *Runner {
	r := &Runner{woken: make(chan struct{}, 1)}
	r.dispatcher = New(shared, limits, r.wake)
	r.wake() // for states that were published before the hub knew the dispatcher
	return r
}

// wake makes Run pass soon.
func (r *Runner) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Do calls f with the dispatcher, and then carries out the resulting jobs: the caller fills the answers of reads, while
// other goroutines use the dispatcher. f must not block.
func (r *Runner) Do(f func(*Dispatcher)) {
	for _, job := range r.locked(f) {
		job.Do()
	}
}

func (r *Runner) locked(f func(*Dispatcher)) []Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.dispatcher)
	return r.dispatcher.Work()
}

// Watches is [Dispatcher.Watches].
func (r *Runner) Watches() int { return r.dispatcher.Watches() }

// Detach is [Dispatcher.Detach].
func (r *Runner) Detach(id session.ID, attachment, index uint64, why error) {
	r.dispatcher.Detach(id, attachment, index, why)
}

// Run drives the dispatcher through the states that the hub publishes, until ctx ends. Its owner calls
// [Dispatcher.Tick].
func (r *Runner) Run(ctx context.Context) {
	for {
		select {
		case <-r.woken:
			r.Do(func(d *Dispatcher) { d.Pass() })
		case <-ctx.Done():
			return
		}
	}
}
