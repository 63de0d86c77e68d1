package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// remarksWaiting is how many remarks wait for a writer that takes none. Further ones are dropped and counted.
	remarksWaiting = 64
	// lastWords is how long a command waits at its end for the standard error to take what was said.
	lastWords = 2 * time.Second
)

// remarks writes to a writer that may take nothing for long. Nobody waits for the writer but a goroutine that runs
// while there is something to write. A remarks is safe for concurrent use.
type remarks struct {
	to io.Writer

	mu sync.Mutex
	// waiting are the remarks that the writer has not got yet, dropped counts those after them that found no room.
	// Guarded by mu.
	waiting []string
	dropped int
	// idle is closed when the goroutine has written everything and ends; nil while no goroutine runs. guarded by mu
	idle chan struct{}
}

// add has a remark written, and does not wait for that.
func (r *remarks) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == remarksWaiting {
		r.dropped++
		return
	}
	r.waiting = append(r.waiting, text)
	if r.idle == nil {
		r.idle = make(chan struct{})
		go r.write()
	}
}

// write writes all that waits. It ignores failures: nobody is left to hear of them.
func (r *remarks) write() {
	for texts, dropped := r.take(); len(texts) > 0; texts, dropped = r.take() {
		for _, text := range texts {
			_, _ = io.WriteString(r.to, text)
		}
		if dropped > 0 {
			_, _ = fmt.Fprintf(r.to, "holdfast: %d remarks were dropped, because the standard error took nothing\n", dropped)
		}
	}
}

// take takes all that waits. If that is nothing, the goroutine of write ends.
func (r *remarks) take() (texts []string, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts, dropped = r.waiting, r.dropped
	r.waiting, r.dropped = nil, 0
	if len(texts) == 0 {
		close(r.idle)
		r.idle = nil
	}
	return texts, dropped
}

// wait waits until everything is written, for at most [lastWords].
func (r *remarks) wait() {
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	if idle == nil {
		return
	}
	late := time.NewTimer(lastWords)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	}
}
