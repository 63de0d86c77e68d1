package namespace

import "sync"

// pulse wakes all goroutines that wait. Safe for concurrent use.
type pulse struct {
	mu sync.Mutex
	// next is closed at the next beat; nil while nobody waits. guarded by mu
	next chan struct{}
}

// wait returns a channel that the next beat closes. The caller checks its condition after this call.
func (p *pulse) wait() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.next
}

// beat wakes all who wait.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil {
		close(p.next)
		p.next = nil
	}
}
