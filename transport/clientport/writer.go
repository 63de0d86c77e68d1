package clientport

import (
	"context"
	"time"
)

// writer sends the messages of one Connect stream: those of the outbox, and what the node tells of the tree.
type writer struct {
	// c is nil for an outbox alone.
	c    *connection
	out  *outbox
	next parcel
	// late fires when gRPC does not take a message in time.
	late *time.Timer
	tree treeWriter
}

// run sends until the queue is closed and empty, ctx ends, or send fails. It gives send a [parcel].
func (w *writer) run(ctx context.Context, send func(m any) error) error {
	w.late = time.AfterFunc(w.out.patience, w.out.stuck)
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

// step sends some of what there is, of the queue and of the tree in turn. It reports whether there was anything, and
// whether the queue is closed.
func (w *writer) step(ctx context.Context, send func(m any) error) (some, closed bool, err error) {
	batch, joined, closed := w.out.take()
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

// send sends messages that wait nowhere else any more, joined to one if the client takes that. One reading of the
// node's state serves all of them, because all were made before it (N4). send keeps none of them: the queue's array
// keeps what it holds. gRPC writes a parcel into a buffer of its own before it returns.
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
	guard := w.guard()
	defer guard.disarm()
	for i := 0; i < len(batch); i += each {
		if err := ctx.Err(); err != nil {
			return err
		}
		slow := slowness(p.weight) // the weight of the one before
		w.late.Reset(w.out.patience + slow)
		guard.arm(slow)
		p.pack(batch[i : i+each])
		if err := send(p); err != nil {
			return err
		}
		clear(batch[i : i+each])
	}
	return nil
}
