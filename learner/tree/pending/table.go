package pending

import (
	"time"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// View has the writers of the node's state: as of the newest entry that the table has recorded, or later. A
// [writers.Root] is a View.
type View interface {
	// Writer returns the numbers of a session; false if it has not written.
	Writer(id uint64) (writers.Writer, bool)
	// Result returns the kept result of a write.
	Result(id, number uint64) ([]byte, bool)
}

// Encode returns a write as a command of the log, in new memory.
type Encode func(Write) []byte

// Table holds the pending writes of all sessions that a node serves. The caller passes the present time, which must not
// go back. Not safe for concurrent use.
//
// The table forgets a session that has not written for a while: [View] has the numbers.
type Table struct {
	limits Limits
	encode Encode
	queues map[session.ID]*queue
	// active are the queues with pending writes, in no order.
	active []*queue
	// budget is the memory budget for the bytes of writes. Principals share it, and their connections.
	budget *fair.Nested[uint64, uint64]
	// ready are the queues that may send. Connections take turns (W9 fair turns).
	ready fair.Queue[uint64, *queue]
	// timers has the queues that wait after a refusal, and the queues without pending writes until they are quiet.
	timers timers
	// quiet are queues that have been quiet. [Table.Due] processes them.
	quiet []*queue
	// streaming says that there is a stream to the leader.
	streaming bool
}

// New returns a table without writes and without a stream.
func New(limits Limits, encode Encode) *Table {
	return &Table{
		limits: limits, encode: encode, queues: map[session.ID]*queue{},
		budget: fair.NewNested[uint64, uint64](limits.NodeBytes),
	}
}

// Accept adds a write of a client. With a nil error the table sends the write until it is answered. A repeated write is
// added once; a void replaces the unanswered write with its number (X6 giving up). Errors, after which the number stays
// unused:
//
//   - [tree.GapError]: an earlier number must come first. The client goes back to it (X8 admission of writes).
//   - [session.LimitError]: too many writes or bytes are unanswered, of the session or of the node (X1, W7 size
//     bounds).
//   - [session.MovedError]: the attachment is a former one (M1 a resume is a move).
//   - [session.FieldError]: a field has a value that no client may send.
//
// The caller has checked that the node serves the attachment, and view shows the move that made it.
func (t *Table) Accept(w Write, view View, now time.Time) error {
	switch {
	case w.Number == 0:
		return &session.FieldError{Field: "number", Limit: "1 or more"}
	case w.Acked >= w.Number:
		return &session.FieldError{Field: "acked", Limit: "below number"}
	case w.Weight == 0:
		return &session.FieldError{Field: "weight", Limit: "1 or more"}
	case w.Void && len(w.Body) > 0:
		return &session.FieldError{Field: "void", Limit: "not with operations"}
	}
	q, err := t.serving(&w, view)
	if q == nil {
		return err
	}
	q.acknowledged(w.Acked)
	defer t.schedule(q, now)
	switch expected := q.expected(); {
	case w.Number < q.began || w.Number > expected:
		return &tree.GapError{Expected: expected}
	case w.Number < expected:
		t.replace(q, &w)
		return nil
	}
	if err := t.reserve(q, w.size()); err != nil {
		return err
	}
	q.pending = append(q.pending, entry{Write: w})
	t.activate(q)
	return nil
}

// Refuse records that the node refuses a write for a reason of its own, before [Table.Accept] (X8). The next write of
// the attachment must then have this number, if the attachment has not written yet. Otherwise: 1 was applied under a
// former attachment and is sent again, the node refuses it, 2 is at most applied + 1 and counts as the first number,
// and 1 is never answered.
func (t *Table) Refuse(w Write, view View, now time.Time) {
	if w.Number == 0 {
		return
	}
	if q, _ := t.serving(&w, view); q != nil { // Accept would return the error
		t.schedule(q, now)
	}
}

// Repeated records that a write was answered again whose number the state had used before, perhaps under a former
// attachment. If that number is the next expected one, the following number is expected now. Otherwise: the node
// refuses 1, which was applied before, the client sends 1 again and gets its answer, and 2 is a GAP for ever, because 1
// is still expected.
func (t *Table) Repeated(id session.ID, attachment, number uint64) {
	if q := t.queues[id]; q != nil && q.attachment == attachment && len(q.pending) == 0 && number == q.lowest {
		q.lowest++
	}
}

// serving returns the queue of a write's attachment. It makes a queue for an attachment that writes for the first time:
// the first number is at most the next that the state accepts (X8). The queue is nil if the client has the write's
// result.
func (t *Table) serving(w *Write, view View) (*queue, error) {
	q := t.queues[w.Session]
	switch {
	case q == nil:
	case q.attachment > w.Attachment:
		return nil, &session.MovedError{Attachment: q.attachment}
	case q.attachment < w.Attachment:
		t.drop(q)
		q = nil
	case q.began > 0:
		return q, nil
	}
	state, _ := view.Writer(uint64(w.Session))
	switch {
	case w.Number-1 > state.Applied:
		return nil, &tree.GapError{Expected: state.Applied + 1}
	case w.Number <= state.Acked: // a void after its result
		return nil, nil //nolint:nilnil // nothing to keep
	}
	if q == nil {
		q = t.open(w.Session, w.Attachment)
	}
	q.began, q.lowest = w.Number, w.Number
	q.connection, q.principal, q.member = w.Connection, w.Principal, t.budget.Member(w.Principal, w.Connection)
	return q, nil
}

func (t *Table) open(id session.ID, attachment uint64) *queue {
	q := &queue{session: id, attachment: attachment, maxInFlight: t.limits.Unanswered, place: -1}
	t.queues[id] = q
	return q
}

// replace replaces a pending write by a void (X6). Whichever of the two reaches the log first uses the number. A copy
// from another connection may have reads before it.
func (t *Table) replace(q *queue, w *Write) {
	p := q.find(w.Number)
	if p == nil {
		return
	}
	w.ReadsBefore = w.ReadsBefore || p.ReadsBefore
	if !w.Void || p.Void {
		p.ReadsBefore = w.ReadsBefore
		return
	}
	freed := p.size() - w.size()
	q.release(freed)
	p.Write = *w
	q.out = 0
}

// Acknowledged records that a client has all results up to a number: from keep-alives (X1 numbered writes), or because
// a ZooKeeper connection was sent them (Z2 connect).
func (t *Table) Acknowledged(id session.ID, attachment, upTo uint64, view View, now time.Time) {
	q := t.queues[id]
	if q == nil {
		state, ok := view.Writer(uint64(id))
		if !ok || min(upTo, state.Applied) <= state.Acked {
			return
		}
		q = t.open(id, attachment)
		q.lowest = state.Applied + 1
		t.schedule(q, now)
	}
	if q.attachment != attachment || upTo <= q.acked {
		return
	}
	q.acknowledged(upTo)
	if len(q.pending) > 0 || q.timer.place == 0 {
		t.schedule(q, now)
	}
}

// Waiting returns the number of sessions with pending writes, and the bytes of these writes.
func (t *Table) Waiting() (sessions, bytes int) { return len(t.active), t.budget.Used() }

// Moved drops the queue of a session's attachments before one. Its writes may have taken effect.
func (t *Table) Moved(id session.ID, attachment uint64) {
	if q := t.queues[id]; q != nil && q.attachment < attachment {
		t.drop(q)
	}
}

// Gone drops the queue of a session that has ended.
func (t *Table) Gone(id session.ID) {
	if q := t.queues[id]; q != nil {
		t.drop(q)
	}
}

func (t *Table) drop(q *queue) {
	if q.member != nil {
		q.release(q.bytes)
		q.member.Close()
	}
	if q.listed {
		t.ready.Remove(&q.turn)
		q.listed = false
	}
	q.pending, q.out = nil, 0
	t.deactivate(q)
	t.timers.stop(q)
	delete(t.queues, q.session)
}

func (t *Table) activate(q *queue) {
	if q.place < 0 {
		q.place = len(t.active)
		t.active = append(t.active, q)
	}
}

func (t *Table) deactivate(q *queue) {
	if q.place < 0 {
		return
	}
	last := len(t.active) - 1
	t.active[q.place] = t.active[last]
	t.active[q.place].place = q.place
	t.active[last] = nil
	t.active = t.active[:last]
	q.place = -1
}

// schedule sets the next time to process a queue. Every change of a queue ends with it.
func (t *Table) schedule(q *queue, now time.Time) {
	switch {
	case len(q.pending) == 0:
		t.timers.set(q, now.Add(t.limits.Quiet))
	case now.Before(q.until):
		t.timers.set(q, q.until)
	default:
		t.timers.stop(q)
		t.list(q, now)
	}
}

// list adds a queue to the queues that may send, if it may.
func (t *Table) list(q *queue, now time.Time) {
	if q.listed {
		return
	}
	if p := q.sends(now); p != nil {
		q.listed, q.turn.Value = true, q
		t.ready.Push(&q.turn, q.connection, session.WriteCost(p.size(), int(p.Weight)))
	}
}
