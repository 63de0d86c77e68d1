package leader

import "sync"

// handlers runs the handlers of requests until it is stopped. Safe for concurrent use.
type handlers struct {
	mu      sync.Mutex
	stopped bool // guarded by mu
	running sync.WaitGroup
}

// start runs f beside the caller; false after stop.
func (h *handlers) start(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return false
	}
	h.running.Go(f)
	return true
}

// stop lets no more handlers start, and returns when all have ended.
func (h *handlers) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	h.running.Wait()
}
