package learner

import "sync"

// broadcast wakes all waiting goroutines. Safe for concurrent use.
type broadcast struct {
	mu sync.Mutex
	// next is closed by the next wake; nil while nobody waits. guarded by mu
	next chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{} }

// wait returns a channel that the next wake closes. Call wait before checking the condition, so that no wake is missed.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// wake wakes all waiting goroutines.
func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// notify sends a signal on a channel with space for one. A signal that is already there suffices.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
