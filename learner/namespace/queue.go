package namespace

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/learner/lane"
	"holdfast/learner/writes"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// sendAgainAfter is how long the sender waits when too much is unsent on the stream to the leader.
const sendAgainAfter = 5 * time.Millisecond

// queue is the node's queue of writes, with the goroutine that sends them. It implements [lane.Writes]. Safe for
// concurrent use.
type queue struct {
	node Node
	// view shows the writers of the applied state.
	view func() writes.View
	// wake has room for one signal: there may be something to send.
	wake chan struct{}

	mu sync.Mutex
	// table is the queue. guarded by mu
	table *writes.Table
	// stream counts the beginnings and ends of streams to the leader; streaming says that there is one. guarded by mu
	stream    uint64
	streaming bool
}

func newQueue(node Node, limits writes.Limits, view func() writes.View) *queue {
	return &queue{node: node, view: view, wake: make(chan struct{}, 1), table: writes.New(limits, encode)}
}

// encode returns a write as a command of the log.
func encode(w writes.Write) []byte {
	return form.AppendNumbered(make([]byte, 0, len(w.Body)+writes.Overhead), tree.NumberedWrite{
		Session: uint64(w.Session), Attachment: w.Attachment, Number: w.Number, Acked: w.Acked, Void: w.Void,
	}, w.Body)
}

// writeOf returns a write as the table takes it.
func writeOf(w *lane.Write) writes.Write {
	return writes.Write{
		Session: w.Session, Attachment: w.Attachment, Number: w.Number, Acked: w.Acked, Void: w.Void, Body: w.Body,
		Weight: w.Weight, Connection: w.Connection, Principal: w.Principal,
	}
}

// do calls f with the table, and then lets the sender look.
func (q *queue) do(f func(t *writes.Table, now time.Time)) {
	q.mu.Lock()
	f(q.table, time.Now())
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Accept takes a write whose turn has come (G3).
func (q *queue) Accept(w *lane.Write) (err error) {
	view := q.view()
	q.do(func(t *writes.Table, now time.Time) { err = t.Accept(writeOf(w), view, now) })
	return err
}

// Refused notes that the node has refused a write (X8).
func (q *queue) Refused(w *lane.Write) {
	view := q.view()
	q.do(func(t *writes.Table, now time.Time) { t.Refuse(writeOf(w), view, now) })
}

// Repeated notes that a write was answered whose number was taken before: under a former attachment, if the queue waits
// for it.
func (q *queue) Repeated(w *lane.Write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.table.Repeated(w.Session, w.Attachment, w.Number)
}

// Skipped has nothing to do: the queue hears of all outcomes itself, and of restored snapshots.
func (*queue) Skipped(session.ID, uint64, uint64) {}

// acknowledged notes which results a client has in hand (X1).
func (q *queue) acknowledged(id session.ID, attachment, upTo uint64) {
	view := q.view()
	q.do(func(t *writes.Table, now time.Time) { t.Acknowledged(id, attachment, upTo, view, now) })
}

// ended notes that a session has moved or ended. The lanes answer its writes.
func (q *queue) ended(id session.ID, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if moved := movedBy(why); moved != nil {
		q.table.Moved(id, moved)
		return
	}
	q.table.Gone(id, nil)
}

// applied takes what the log decided of writes. The lanes answer them.
func (q *queue) applied(wrote []writes.Outcome) {
	q.do(func(t *writes.Table, now time.Time) { t.Applied(wrote, now) })
}

// restored takes a state that a snapshot has brought. The lanes answer what it decides.
func (q *queue) restored(view writes.View, fate func(id session.ID, attachment uint64) error) {
	q.do(func(t *writes.Table, now time.Time) { t.Skipped(view, fate, now) })
}

func (q *queue) streamBegan() {
	q.do(func(t *writes.Table, now time.Time) {
		q.stream, q.streaming = q.stream+1, true
		t.StreamBegan(now)
	})
}

func (q *queue) streamEnded() {
	q.do(func(t *writes.Table, _ time.Time) {
		q.stream, q.streaming = q.stream+1, false
		t.StreamEnded()
	})
}

func (q *queue) refusedByLeader(all []session.WriteRefusal) {
	q.do(func(t *writes.Table, now time.Time) { t.Refused(all, now) })
}

// sending is what the sender has taken out of the table.
type sending struct {
	writes []session.ForwardedWrite
	// stream is the one that it is for.
	stream uint64
	acks   []session.Acknowledged
	// wants says that writes wait and no stream is open.
	wants bool
	// wake is when to look again though nothing happens; zero: never.
	wake time.Time
}

// take takes out of the table what may be sent now.
func (q *queue) take() (out sending) {
	view := q.view()
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	out.stream = q.stream
	out.writes = q.table.Next(now)
	out.acks = q.table.Due(view, now)
	if !q.streaming {
		waiting, _ := q.table.Waiting()
		out.wants = waiting > 0
	}
	if len(out.writes) == 0 && len(out.acks) == 0 {
		out.wake, _ = q.table.Wake()
	}
	return out
}

// current reports whether a stream is still the one that writes are sent on.
func (q *queue) current(stream uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stream == stream
}

// run sends what may be sent until ctx ends.
func (q *queue) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		out := q.take()
		q.send(ctx, &out)
		if len(out.writes) > 0 || len(out.acks) > 0 {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Stop()
		if !out.wake.IsZero() {
			timer.Reset(time.Until(out.wake))
		}
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-timer.C:
		}
	}
}

// send sends writes and acknowledgements. An acknowledgement may be lost: the table names it again. Writes that do not
// fit wait, unless their stream ends: then the table has gone back.
func (q *queue) send(ctx context.Context, out *sending) {
	if len(out.acks) > 0 {
		_ = q.node.Acknowledge(out.acks)
	}
	if out.wants {
		_ = q.node.Forward(nil) // it opens a stream
		return
	}
	for len(out.writes) > 0 {
		if !errors.Is(q.node.Forward(out.writes), session.ErrLimit) || !q.current(out.stream) {
			return
		}
		again := time.NewTimer(sendAgainAfter)
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
	}
}
