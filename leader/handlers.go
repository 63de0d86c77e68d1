package leader

import "sync"

// handlers counts the running handlers of requests until stop. After stop has returned, no handler proposes a command,
// so the commands of this node's next tracker follow the commands of this one (R5 start of a tracker). Safe for
// concurrent use.
type handlers struct {
	mu      sync.Mutex
	stopped bool // guarded by mu
	running sync.WaitGroup
}

// begin counts the caller as a handler until the caller calls end; false after stop.
func (h *handlers) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return false
	}
	h.running.Add(1)
	return true
}

// end ends a handler.
func (h *handlers) end() { h.running.Done() }

// start runs f in a goroutine as a handler; false after stop.
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
