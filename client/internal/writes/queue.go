package writes

import (
	"errors"
	"fmt"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Bounds of writes without a number: those that wait until fewer are unanswered.
const (
	MaxWaiting      = 4096
	MaxWaitingBytes = 16 << 20
)

// mostWait bounds the wait that a queue chooses by itself.
const mostWait = time.Second

// ErrResume says that the node's numbers are not those of this attachment: the client has to resume the session.
var ErrResume = errors.New("the node expects another write than the client has")

// LostError says that the cluster knows fewer writes of the session than it has answered: it was restored from a backup
// or has lost its state. The session can write no more.
type LostError struct {
	// Applied is the newest write that the state knows, Answered the newest one that was answered.
	Applied, Answered uint64
}

func (e *LostError) Error() string {
	return fmt.Sprintf("write %d was answered, but the cluster knows only the writes up to %d: open another session",
		e.Answered, e.Applied)
}

// Write is one write of a caller.
type Write struct {
	// Body is what it asks for.
	Body any
	size int
	// number is 0 before the write is sent for the first time.
	number uint64
	// sends counts how often the write was sent. never says that the only copy was refused: it has no effect.
	sends int
	never bool
	// void says that a void is sent in its place. gaveUp says that its caller has been told [Unknown].
	void, gaveUp bool
	// told is what became of it, while an earlier write has no answer; nil before.
	told *Told
	// refusal is why a node refused it for good.
	refusal error
}

// Number returns the write's number, 0 if it was not sent yet.
func (w *Write) Number() uint64 { return w.number }

// Send is a write to be sent.
type Send struct {
	Number, Acked uint64
	// Void takes the number and does nothing else (X6). Body is then nil.
	Void bool
	Body any
}

// Queue has the writes of one session. A write gets its number when it is sent for the first time, so that another
// client process cannot make one unknown that was never sent. Not safe for concurrent use.
type Queue struct {
	waiting      []*Write
	waitingBytes int
	// sent are the writes from number lowest on: the first has no answer. bytes counts the unanswered ones.
	sent   []*Write
	lowest uint64
	bytes  int
	// out counts the first of sent that went out on this attachment since the queue last went back.
	out int
	// resumed says that there is an attachment to send on, which began when the state had the writes up to applied.
	resumed bool
	applied uint64
	until   time.Time
	// refusals counts those in a row, without an answer between them.
	refusals int
}

// New returns the queue of a session that has not written. It sends nothing before [Queue.Resumed].
func New() *Queue { return &Queue{lowest: 1} }

// Push adds a write of so many bytes. The error is a [session.LimitError]: too much waits already.
func (q *Queue) Push(body any, size int) (*Write, error) {
	if len(q.waiting) >= MaxWaiting {
		return nil, &session.LimitError{Name: "waiting_writes", Limit: fmt.Sprint(MaxWaiting)}
	}
	if len(q.waiting) > 0 && q.waitingBytes+size > MaxWaitingBytes {
		return nil, &session.LimitError{Name: "waiting_write_bytes", Limit: fmt.Sprint(MaxWaitingBytes)}
	}
	w := &Write{Body: body, size: size}
	q.waiting = append(q.waiting, w)
	q.waitingBytes += size
	return w, nil
}

// Acked returns the number up to which all results are in hand (X1).
func (q *Queue) Acked() uint64 { return q.lowest - 1 }

// Unanswered returns how many writes have a number and no answer, or wait for one.
func (q *Queue) Unanswered() int { return len(q.sent) + len(q.waiting) }

// Next returns the next write to be sent on the present attachment, false if none may be sent now.
func (q *Queue) Next(now time.Time) (Send, bool) {
	if !q.resumed || now.Before(q.until) {
		return Send{}, false
	}
	for q.out < len(q.sent) && q.sent[q.out].told != nil {
		q.out++
	}
	if q.out == len(q.sent) && !q.number() {
		return Send{}, false
	}
	w := q.sent[q.out]
	q.out++
	w.sends++
	send := Send{Number: w.number, Acked: q.Acked(), Void: w.void}
	if !w.void {
		send.Body = w.Body
	}
	return send, true
}

// Pending returns the write that [Queue.Next] sends next on the present attachment, now or later; nil if all were sent.
func (q *Queue) Pending() *Write {
	for _, w := range q.sent[q.out:] {
		if w.told == nil {
			return w
		}
	}
	if len(q.waiting) > 0 {
		return q.waiting[0]
	}
	return nil
}

// Oldest returns the first write that has no answer and whose caller waits; nil if there is none.
func (q *Queue) Oldest() *Write {
	for _, w := range q.sent {
		if w.told == nil && !w.gaveUp {
			return w
		}
	}
	if len(q.waiting) > 0 {
		return q.waiting[0]
	}
	return nil
}

// number gives the next number to the write that has waited longest (X1). It reports false if there is none, or if too
// many are unanswered.
func (q *Queue) number() bool {
	if len(q.waiting) == 0 || len(q.sent) >= tree.MaxUnanswered {
		return false
	}
	w := q.waiting[0]
	if len(q.sent) > 0 && q.bytes+w.size > tree.MaxUnansweredBytes {
		return false
	}
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.waitingBytes -= w.size
	w.number = q.next()
	q.sent = append(q.sent, w)
	q.bytes += w.size
	return true
}

func (q *Queue) next() uint64 { return q.lowest + uint64(len(q.sent)) }

// Wake returns when [Queue.Next] has to be asked again though nothing else happens, false if there is no such time.
func (q *Queue) Wake() (time.Time, bool) {
	return q.until, q.resumed && !q.until.IsZero() && q.Unanswered() > 0
}

// find returns the unanswered write of a number, nil if there is none.
func (q *Queue) find(number uint64) *Write {
	if number < q.lowest || number >= q.next() {
		return nil
	}
	if w := q.sent[number-q.lowest]; w.told == nil {
		return w
	}
	return nil
}

// tell notes what became of a write.
func (q *Queue) tell(w *Write, told Told) {
	if told.Fate == Unknown && w.never {
		told.Fate = Never
	}
	told.Write, told.Late = w, w.gaveUp
	w.told = &told
	q.bytes -= w.size
}

// pop returns what callers hear, in the order of the numbers. A caller that gave up hears nothing twice.
func (q *Queue) pop() (all []Told) {
	for len(q.sent) > 0 && q.sent[0].told != nil {
		if told := q.sent[0].told; !told.Late || told.Fate != Unknown {
			all = append(all, *told)
		}
		q.sent[0] = nil
		q.sent = q.sent[1:]
		q.lowest++
		q.out = max(q.out-1, 0)
	}
	return all
}
