package leader

import "sync"

// handlers counts what handles requests, until it is stopped. After stop has returned, no handler proposes anything:
// the commands of the next tracker of this node follow those of this one (R5). Safe for concurrent use.
type handlers struct {
	mu      sync.Mutex
	stopped bool // guarded by mu
	running sync.WaitGroup
}

// begin counts the caller as a handler until it calls end; false after stop.
func (h *handlers) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return false
	}
	h.running.Add(1)
	return true
}

// end ends what begin began.
func (h *handlers) end() { h.running.Done() }

// start runs f, which waits, beside the caller; false after stop.
func (h *handlers) start(f func()) bool {
	if !h.begin() {
		return false
	}
	go func() {
		defer h.end()
		f()
	}()
	return true
}

// stop lets no more handlers begin, and returns when all have ended.
func (h *handlers) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	h.running.Wait()
}
