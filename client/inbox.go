package client

import (
	"context"
	"sync"

	"holdfast/client/internal/core"
)

const (
	// maxOffers bounds the inputs from streams and lookups that wait for the loop. While as many wait, a stream reads
	// no further message of its node.
	maxOffers = 64
	// maxTurn bounds the inputs of one turn. Further inputs wait for the next turn, so that many callers do not delay a
	// touch.
	maxTurn = 1024
)

// inbox queues inputs for the loop. The inputs of callers need no bound: each caller waits for one answer. Safe for
// concurrent use; only the loop calls take and close.
type inbox struct {
	// wake signals that inputs are queued. Its buffer holds one signal.
	wake chan struct{}
	// offers limits the inputs of streams and lookups, from the offer to the end of the turn.
	offers chan struct{}

	mu      sync.Mutex
	waiting []core.Input // guarded by mu
	closed  bool         // guarded by mu

	// batch belongs to the loop.
	batch []core.Input
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), offers: make(chan struct{}, maxOffers)}
}

// put queues the input of a caller. It reports false after the end of the loop; the loop handles every other input.
func (b *inbox) put(in core.Input) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.waiting = append(b.waiting, in)
	if len(b.waiting) == 1 {
		b.rouse()
	}
	return true
}

// offer adds the input of a stream or a lookup, once the inbox has capacity. It gives up when ctx ends first.
func (b *inbox) offer(ctx context.Context, in core.Input) {
	select {
	case b.offers <- struct{}{}:
	case <-ctx.Done():
		return
	}
	b.put(in)
}

// rouse wakes the loop. Called with mu held.
func (b *inbox) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns queued inputs in their order, at most [maxTurn]. The slice is valid until done.
func (b *inbox) take() []core.Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxTurn)
	b.batch = append(b.batch[:0], b.waiting[:n]...)
	left := copy(b.waiting, b.waiting[n:])
	clear(b.waiting[left:])
	if b.waiting = b.waiting[:left]; left > 0 {
		b.rouse()
	}
	return b.batch
}

// done ends a turn with the inputs that take returned: their streams may continue.
func (b *inbox) done() {
	for _, in := range b.batch {
		if offered(in) {
			<-b.offers
		}
	}
	clear(b.batch)
	b.batch = b.batch[:0]
}

// close refuses further inputs, and returns the queued inputs.
func (b *inbox) close() []core.Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := b.waiting
	b.closed, b.waiting = true, nil
	return waiting
}

// offered reports whether an input comes from a stream or a lookup.
func offered(in core.Input) bool {
	switch in.(type) {
	case core.Up, core.Received, core.Down, core.Resolved, core.Members:
		return true
	default:
		return false
	}
}
