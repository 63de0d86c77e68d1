package writes

import (
	"time"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// View is what the node's state shows of the writers: as of the newest entry that the table was told of, or later. A
// [writers.Root] is one.
type View interface {
	// Writer returns the numbers of a session, false if it has not written.
	Writer(id uint64) (writers.Writer, bool)
	// Result returns the kept result of a write.
	Result(id, number uint64) ([]byte, bool)
}

// Encode returns a write as a command of the log. The bytes must be new ones.
type Encode func(Write) []byte

// Table has the queues of all sessions that a node serves and that write. The caller names the present time, which
// must not go back. Not safe for concurrent use.
//
// It keeps nothing of a session that has not written for a while: [View] has the numbers.
type Table struct {
	limits Limits
	encode Encode
	queues map[session.ID]*queue
	// active are the queues with unanswered writes, in no order.
	active []*queue
	// room is for the bytes of writes. Principals share it, and their connections.
	room *fair.Nested[uint64, uint64]
	// ready are the queues that may send. Connections take turns (W9).
	ready fair.Queue[uint64, *queue]
	// timers has the queues that wait after a refusal, and those without unanswered writes until they are quiet.
	timers timers
	// quiet are the queues that have been quiet, and are looked at in [Table.Due].
	quiet []*queue
	// streaming says that there is a stream to the leader.
	streaming bool
}

// New returns a table without writes and without a stream.
func New(limits Limits, encode Encode) *Table {
	return &Table{
		limits: limits, encode: encode, queues: map[session.ID]*queue{},
		room: fair.NewNested[uint64, uint64](limits.NodeBytes),
	}
}

// Accept takes a write of a client. A nil error means that the write is the table's to send until it is answered. A
// write that the table has already is not taken twice; a void takes the place of the unanswered write with its number
// (X6). Errors, after which the number stays free:
//
//   - [tree.GapError]: an earlier number must come first. The client goes back to it (X8).
//   - [session.LimitError]: too many writes or bytes are unanswered, of the session or of the node (X1, W7).
//   - [session.MovedError]: the attachment is a former one (M1).
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
	if err := t.take(q, w.size()); err != nil {
		return err
	}
	q.pending = append(q.pending, pending{Write: w})
	t.activate(q)
	return nil
}

// Refuse notes that the node refuses a write for a reason of its own, before [Table.Accept] (X8). Its number is then
// the one that must come next, if the attachment has not written yet. Without it: 1 has been applied under a former
// attachment and is sent again, the node refuses it, 2 is at most applied + 1 and is taken for the first number, and
// nobody answers 1.
func (t *Table) Refuse(w Write, view View, now time.Time) {
	if w.Number == 0 {
		return
	}
	if q, _ := t.serving(&w, view); q != nil { // an error is for a write that would be taken
		t.schedule(q, now)
	}
}

// Repeated notes that a write was answered again whose number the state took before, perhaps under a former attachment.
// If it is the number that must come next, the next one must now. Without it: the node refuses 1, which was applied
// before, the client sends it again and has its answer, and 2 is a GAP for ever, as 1 is still to come.
func (t *Table) Repeated(id session.ID, attachment, number uint64) {
	if q := t.queues[id]; q != nil && q.attachment == attachment && len(q.pending) == 0 && number == q.lowest {
		q.lowest++
	}
}

// serving returns the queue of a write's attachment. It makes one for an attachment that writes for the first time: its
// first number is at most the next that the state takes (X8). The queue is nil if the client has the write's result.
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
	case w.Number <= state.Acked: // a void that its result has overtaken
		return nil, nil //nolint:nilnil // there is nothing to keep
	}
	if q == nil {
		q = t.open(w.Session, w.Attachment)
	}
	q.began, q.lowest = w.Number, w.Number
	q.connection, q.principal, q.member = w.Connection, w.Principal, t.room.Member(w.Principal, w.Connection)
	return q, nil
}

func (t *Table) open(id session.ID, attachment uint64) *queue {
	q := &queue{session: id, attachment: attachment, room: t.limits.Unanswered, place: -1}
	t.queues[id] = q
	return q
}

// replace puts a void in the place of an unanswered write (X6). Whichever of the two the log takes first has the
// number.
func (t *Table) replace(q *queue, w *Write) {
	p := q.find(w.Number)
	if p == nil || !w.Void || p.Void {
		return
	}
	freed := p.size() - w.size()
	q.give(freed)
	p.Write = *w
	q.out = 0
}

// Acknowledged notes that a client has all results up to a number: keep-alives say so (X1), and a ZooKeeper connection
// has what it was sent (Z2).
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

// Idle reports whether a session has no unanswered write here: a close waits for that (G7), and so does a read behind
// writes (G3).
func (t *Table) Idle(id session.ID) bool {
	q := t.queues[id]
	return q == nil || len(q.pending) == 0
}

// Waiting returns how many sessions have unanswered writes, and the bytes of these.
func (t *Table) Waiting() (sessions, bytes int) { return len(t.active), t.room.Taken() }

// Moved ends the queue of a session's attachments before the one that err names. It returns the outcome of each
// unanswered write: err, which does not tell whether the write took effect.
func (t *Table) Moved(id session.ID, err *session.MovedError) []Outcome {
	if q := t.queues[id]; q != nil && q.attachment < err.Attachment {
		return t.end(q, err)
	}
	return nil
}

// Gone ends the queue of a session that has ended. It returns the outcome of each unanswered write, as [Table.Moved].
func (t *Table) Gone(id session.ID, err *session.ExpiredError) []Outcome {
	if q := t.queues[id]; q != nil {
		return t.end(q, err)
	}
	return nil
}

// Disconnected forgets an attachment whose connection has ended: its client comes back with another one (M1), and sends
// again what it has no answer to.
func (t *Table) Disconnected(id session.ID, attachment uint64) {
	if q := t.queues[id]; q != nil && q.attachment == attachment {
		t.drop(q)
	}
}

func (t *Table) end(q *queue, err error) (told []Outcome) {
	for i := range q.pending {
		if p := &q.pending[i]; !p.answered {
			told = append(told, Outcome{Session: q.session, Attachment: q.attachment, Number: p.Number, Err: err})
		}
	}
	t.drop(q)
	return told
}

func (t *Table) drop(q *queue) {
	if q.member != nil {
		q.give(q.bytes)
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

// schedule says when to look at a queue next, after anything has happened to it.
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

// list puts a queue into the list of those that may send, if it may.
func (t *Table) list(q *queue, now time.Time) {
	if q.listed {
		return
	}
	if p := q.sends(now); p != nil {
		q.listed, q.turn.Value = true, q
		t.ready.Push(&q.turn, q.connection, session.WriteCost(p.size(), int(p.Weight)))
	}
}
