package clientport

import (
	"context"
	"time"
)

// writer sends the messages of one Connect stream: those of the outbox, and the node's items of the tree.
type writer struct {
	// c is nil for a writer with only an outbox.
	c    *connection
	out  *outbox
	next parcel
	// late fires when gRPC does not accept a message in time.
	late *time.Timer
	tree treeWriter
}

// run sends until the queue is closed and empty, ctx ends, or send fails. It calls send with a [parcel].
func (w *writer) run(ctx context.Context, send func(m any) error) error {
	w.late = time.AfterFunc(w.out.readTimeout, w.out.stuck)
	w.late.Stop()
	for {
		some, closed, err := w.step(ctx, send)
		switch {
		case err != nil:
			return err
		case some:
			continue
		case closed:
			return nil
		}
		select {
		case <-w.out.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// step sends some messages of the queue and some of the tree. It reports whether there were any, and whether the queue
// is closed.
func (w *writer) step(ctx context.Context, send func(m any) error) (some, closed bool, err error) {
	batch, joined, closed := w.out.nextBatch()
	if len(batch) > 0 {
		if err = w.send(ctx, batch, joined, send); err != nil {
			return false, closed, err
		}
	}
	if w.c != nil {
		some, err = w.sendTree(ctx, joined, closed, send)
	}
	return some || len(batch) > 0, closed, err
}

// send sends messages of the queue, joined to one if the client accepts that. One state serves all of them, because all
// were made before (N4 seen index). send retains no message: it clears the batch, and gRPC copies a parcel into its own
// buffer before it returns.
//
//nolint:revive // flag-parameter: it is the outbox's
func (w *writer) send(ctx context.Context, batch []outgoing, joined bool, send func(m any) error) error {
	defer w.late.Stop()
	defer clear(batch)
	p := &w.next
	p.joins, p.state = joined, w.out.state()
	each := 1
	if joined {
		each = len(batch)
	}
	guard := w.treeReadTimer()
	defer guard.disarm()
	for i := 0; i < len(batch); i += each {
		if err := ctx.Err(); err != nil {
			return err
		}
		slow := slowness(p.weight) // the weight of the previous parcel
		w.late.Reset(w.out.readTimeout + slow)
		guard.arm(slow)
		p.pack(batch[i : i+each])
		if err := send(p); err != nil {
			return err
		}
		clear(batch[i : i+each])
	}
	return nil
}
