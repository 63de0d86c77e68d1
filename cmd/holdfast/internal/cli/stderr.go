package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// maxMessages bounds the queued messages for the standard error. Further messages are dropped and counted.
	maxMessages = 64
	// flushTimeout bounds the wait for the standard error at the end of a command.
	flushTimeout = 2 * time.Second
)

// messageQueue writes messages to a writer that may block for long. Only the goroutine of write waits for the writer;
// it runs while messages are queued. A messageQueue is safe for concurrent use.
type messageQueue struct {
	to io.Writer

	mu sync.Mutex
	// queued are the messages that write has not taken; dropped counts messages since then that found the queue full.
	// Guarded by mu.
	queued  []string
	dropped int
	// idle is closed when write ends; nil while write does not run. Guarded by mu.
	idle chan struct{}
}

// add queues a message and does not wait for the writer.
func (q *messageQueue) add(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queued) == maxMessages {
		q.dropped++
		return
	}
	q.queued = append(q.queued, text)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.write()
	}
}

// write writes the queued messages. It ignores errors: the standard error is where errors go.
func (q *messageQueue) write() {
	for texts, dropped := q.takeAll(); len(texts) > 0; texts, dropped = q.takeAll() {
		for _, text := range texts {
			_, _ = io.WriteString(q.to, text)
		}
		if dropped > 0 {
			_, _ = fmt.Fprintf(q.to, "holdfast: %d messages were dropped: the standard error was blocked\n", dropped)
		}
	}
}

// takeAll empties the queue. When the queue was empty already, it marks write as ended.
func (q *messageQueue) takeAll() (texts []string, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	texts, dropped = q.queued, q.dropped
	q.queued, q.dropped = nil, 0
	if len(texts) == 0 {
		close(q.idle)
		q.idle = nil
	}
	return texts, dropped
}

// flush waits until all messages are written, for at most [flushTimeout].
func (q *messageQueue) flush() {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return
	}
	late := time.NewTimer(flushTimeout)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	}
}
