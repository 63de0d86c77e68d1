package tree

import (
	"sync"
	"time"

	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// queue guards the node's table of pending writes. Dispatchers add writes, the stream to the leader pulls them, and the
// goroutine that applies the log records their outcomes. It implements [dispatch.Writes], and makes no calls while it
// holds its lock. Safe for concurrent use.
type queue struct {
	// view returns the writers of the applied state.
	view func() pending.View
	// wake has space for one signal: there may be a message to send, or a stream may be needed.
	wake chan struct{}

	mu sync.Mutex
	// table is guarded by mu.
	table *pending.Table
}

func newQueue(limits pending.Limits, view func() pending.View) *queue {
	return &queue{view: view, wake: make(chan struct{}, 1), table: pending.New(limits, encode)}
}

// encode returns a write as a command of the log.
func encode(w pending.Write) []byte {
	return form.AppendNumbered(make([]byte, 0, len(w.Body)+pending.Overhead), tree.NumberedWrite{
		Session: uint64(w.Session), Attachment: w.Attachment, Number: w.Number, Acked: w.Acked,
		ReadsBefore: w.ReadsBefore, Void: w.Void,
	}, w.Body)
}

// do calls f with the table, and then wakes the stream to the leader.
func (q *queue) do(f func(t *pending.Table, now time.Time)) {
	q.mu.Lock()
	f(q.table, time.Now())
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Accept puts a write whose turn has come into the table (G3 order in a session).
func (q *queue) Accept(w *pending.Write) (err error) {
	view := q.view()
	q.do(func(t *pending.Table, now time.Time) { err = t.Accept(*w, view, now) })
	return err
}

// Refused records that the node has refused a write (X8 admission of writes).
func (q *queue) Refused(w *pending.Write) {
	view := q.view()
	q.do(func(t *pending.Table, now time.Time) { t.Refuse(*w, view, now) })
}

// Repeated records that a write was answered whose number had been used before, perhaps under a former attachment.
func (q *queue) Repeated(w *pending.Write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.table.Repeated(w.Session, w.Attachment, w.Number)
}

// acknowledged records which results a client has (X1 numbered writes).
func (q *queue) acknowledged(id session.ID, attachment, upTo uint64) {
	view := q.view()
	q.do(func(t *pending.Table, now time.Time) { t.Acknowledged(id, attachment, upTo, view, now) })
}

// ended records that a session has moved or ended. The dispatchers answer its writes.
func (q *queue) ended(id session.ID, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if moved := movedBy(why); moved != nil {
		q.table.Moved(id, moved.Attachment)
		return
	}
	q.table.Gone(id)
}

// applied records the log's decisions about writes. The dispatchers answer the writes.
func (q *queue) applied(wrote []pending.Outcome) {
	q.do(func(t *pending.Table, now time.Time) { t.Applied(wrote, now) })
}

// restored continues at the state of a restored snapshot. The dispatchers answer the writes that the state has decided.
func (q *queue) restored(view pending.View, fate func(id session.ID, attachment uint64) error) {
	q.do(func(t *pending.Table, now time.Time) { t.Restored(view, fate, now) })
}

// streamWanted reports whether writes are pending while no stream is open.
func (q *queue) streamWanted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	sessions, _ := q.table.Waiting()
	return sessions > 0
}

// next returns the next message to the leader. Acknowledgements are few, and go first, in messages of their own; a lost
// one is sent again later.
func (q *queue) next() (m session.ForwardMessage, more bool, again time.Time) {
	view := q.view()
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now() // under the lock: the table requires times that never go back
	if m.Acknowledged = q.table.Due(view, now); len(m.Acknowledged) > 0 {
		return m, true, time.Time{}
	}
	if m.Writes = q.table.Next(now); len(m.Writes) > 0 {
		return m, true, time.Time{}
	}
	again, _ = q.table.Wake()
	return m, false, again
}
