package learner

import "sync"

// broadcast wakes everyone who waits. Safe for concurrent use.
type broadcast struct {
	mu sync.Mutex
	// next is closed at the next tell; nil while nobody waits. guarded by mu
	next chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{} }

// wait returns a channel that is closed at the next tell. What is waited for is to be checked after this call.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// notify leaves a word in a channel with room for one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
