package clientport

import (
	"context"
	"sync"
	"time"
)

// writer sends the messages of one Connect stream: those of the outbox, and the node's items of the tree. A message
// starts the writer's goroutine, which ends when nothing is left to send. Most streams are quiet most of the time, and
// the stack of a waiting goroutine takes 4 KiB.
type writer struct {
	// start starts a goroutine that calls serve; nil once stopped. guarded by mu
	start func()
	// ended gets the result of the last serve: nil once the queue is closed and all is sent, or the reason.
	ended chan error

	mu sync.Mutex
	// running: the goroutine runs, or has ended for good. again: it must check for more. stopped: none starts any more.
	// guarded by mu
	running, again, stopped bool

	// The rest belongs to the goroutine.

	// c is nil for a writer with only an outbox.
	c    *connection
	out  *outbox
	next parcel
	// late fires when gRPC does not accept a message in time.
	late *time.Timer
	tree treeWriter
}

// wake signals that there may be something to send. It returns at once.
func (w *writer) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case w.running:
		w.again = true
	default:
		w.running = true
		w.start()
	}
}

// stop lets no other goroutine start. It releases the stream: the node keeps the outbox, and thus the writer, longer.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped, w.start = true, nil
}

// serve sends until nothing is left. After an error, and once the queue is closed, the writer stays running: it sends
// nothing more.
func (w *writer) serve(ctx context.Context, send func(m any) error) {
	for {
		closed, err := w.run(ctx, send)
		if closed || err != nil {
			w.ended <- err
			return
		}
		if w.endIfIdle() {
			return
		}
	}
}

// endIfIdle reports whether the goroutine ends, because nothing is left to send.
func (w *writer) endIfIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.again = w.again, false
	return !w.running
}

// run sends until nothing is left or send fails, and reports whether the queue is closed. It calls send with a
// [parcel].
func (w *writer) run(ctx context.Context, send func(m any) error) (closed bool, err error) {
	if w.late == nil {
		w.late = time.AfterFunc(w.out.readTimeout, w.out.stuck)
		w.late.Stop()
	}
	for some := true; some && err == nil; {
		some, closed, err = w.step(ctx, send)
	}
	return closed, err
}

// step sends some messages of the queue and some of the tree. It reports whether there were any, and whether the queue
// is closed.
func (w *writer) step(ctx context.Context, send func(m any) error) (some, closed bool, err error) {
	batch, closed := w.out.nextBatch()
	if len(batch) > 0 {
		if err = w.send(ctx, batch, send); err != nil {
			return false, closed, err
		}
	}
	if w.c != nil {
		some, err = w.sendTree(ctx, closed, send)
	}
	return some || len(batch) > 0, closed, err
}

// send sends messages of the queue as one. One state serves all of them, because all were made before (N4 seen index).
// send retains no message: it clears the batch, and gRPC copies the parcel into its own buffer before it returns.
func (w *writer) send(ctx context.Context, batch []outgoing, send func(m any) error) error {
	defer w.late.Stop()
	defer clear(batch)
	if err := ctx.Err(); err != nil {
		return err
	}
	p := &w.next
	p.state = w.out.state()
	slow := slowness(p.weight) // the weight of the previous parcel
	w.late.Reset(w.out.readTimeout + slow)
	guard := w.treeReadTimer()
	guard.arm(slow)
	defer guard.disarm()
	p.pack(batch)
	err := send(p)
	p.parts = nil
	return err
}
