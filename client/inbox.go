package client

import (
	"context"
	"sync"

	"holdfast/client/internal/core"
)

const (
	// maxOffers bounds the inputs from streams and lookups that wait for the loop. While as many wait, a stream reads no
	// further message of its node.
	maxOffers = 64
	// maxTurn bounds the inputs of one turn. The others wait for the next one, so that a touch is never late because of
	// many callers.
	maxTurn = 1024
)

// inbox holds the inputs that wait for the loop. The inputs of callers have no bound of their own: each caller waits
// for the answer to one. Safe for concurrent use; only the loop takes and closes.
type inbox struct {
	// wake tells the loop that inputs wait. It has room for one.
	wake chan struct{}
	// offers has room for the inputs of streams and lookups, from the offer to the end of the turn.
	offers chan struct{}

	mu      sync.Mutex
	waiting []core.Input // guarded by mu
	closed  bool         // guarded by mu

	// taken belongs to the loop.
	taken []core.Input
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), offers: make(chan struct{}, maxOffers)}
}

// put adds the input of a caller. It reports false after the end of the loop, which takes every other input.
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

// offer adds the input of a stream or a lookup, once there is room. It gives up when ctx ends first.
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

// take returns inputs in their order, at most [maxTurn]. They are good until done.
func (b *inbox) take() []core.Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxTurn)
	b.taken = append(b.taken[:0], b.waiting[:n]...)
	left := copy(b.waiting, b.waiting[n:])
	clear(b.waiting[left:])
	if b.waiting = b.waiting[:left]; left > 0 {
		b.rouse()
	}
	return b.taken
}

// done ends a turn of the inputs that take returned: their streams may go on.
func (b *inbox) done() {
	for _, in := range b.taken {
		if offered(in) {
			<-b.offers
		}
	}
	clear(b.taken)
	b.taken = b.taken[:0]
}

// close lets the inbox take no more, and returns the inputs that wait.
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
