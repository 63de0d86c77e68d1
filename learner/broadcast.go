package learner

import "sync"

// broadcast wakes all goroutines that wait. Safe for concurrent use.
type broadcast struct {
	mu sync.Mutex
	// next is closed at the next tell; nil while nobody waits. guarded by mu
	next chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{} }

// wait returns a channel that the next tell closes. The caller checks its condition after this call, so that it misses
// no tell.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// tell wakes all goroutines that wait.
func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// notify wakes the reader of a channel that has room for one word; a word that is there already suffices.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
