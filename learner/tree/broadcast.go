package tree

import "sync"

// broadcast wakes all waiting goroutines. Safe for concurrent use.
type broadcast struct {
	mu sync.Mutex
	// next is closed at the next wake; nil while nobody waits. guarded by mu
	next chan struct{}
}

// wait returns a channel that the next wake closes. Check the condition after this call.
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
