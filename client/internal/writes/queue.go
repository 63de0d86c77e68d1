package writes

import (
	"errors"
	"fmt"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Bounds of the writes without a number, which wait until fewer writes are unanswered.
const (
	MaxWaiting      = 4096
	MaxWaitingBytes = 16 << 20
)

// maxWait bounds the wait that a queue chooses on its own.
const maxWait = time.Second

// ErrResume says that the node's numbers are not those of this attachment. The client must resume the session.
var ErrResume = errors.New("the node expects another write than the client has")

// LostError reports that the cluster knows fewer writes of the session than it has answered: it was restored from a
// backup or has lost its state. The session can write no more.
type LostError struct {
	// Applied is the newest write that the state knows, Answered the newest answered write.
	Applied, Answered uint64
}

func (e *LostError) Error() string {
	return fmt.Sprintf("write %d was answered, but the cluster knows only the writes up to %d: open another session",
		e.Answered, e.Applied)
}

// Write is one write of a caller.
type Write struct {
	// Body is the request.
	Body any
	size int
	// number is 0 before the write is sent for the first time.
	number uint64
	// sends counts how often the write was sent. never reports whether the only copy was refused: it has no effect.
	sends int
	never bool
	// void: a void is sent instead of the write. gaveUp: the caller has got [Unknown].
	void, gaveUp bool
	// report is held back while an earlier write is unanswered; nil before.
	report *Report
	// refusal is a node's final refusal.
	refusal error
}

// Number returns the write's number, 0 if it was not sent yet.
func (w *Write) Number() uint64 { return w.number }

// Send is a write to be sent.
type Send struct {
	Number, Acked uint64
	// Void uses the number without any effect (X6 giving up). Body is then nil.
	Void bool
	Body any
}

// Queue has the writes of one session. A write gets its number when it is first sent, so that another client process
// cannot make the fate of an unsent write unknown. Not safe for concurrent use.
type Queue struct {
	waiting      []*Write
	waitingBytes int
	// sent are the writes from number lowest on: the first has no answer. bytes counts the unanswered ones.
	sent   []*Write
	lowest uint64
	bytes  int
	// out counts the first of sent that went out on this attachment since the queue last went back.
	out int
	// resumed reports whether there is an attachment to send on, which began when the state had the writes up to
	// applied.
	resumed bool
	applied uint64
	until   time.Time
	// refusals counts refusals in a row, without an answer between them.
	refusals int
}

// New returns the queue of a session that has not written. The queue sends nothing before [Queue.Resumed].
func New() *Queue { return &Queue{lowest: 1} }

// Push adds a write of so many bytes. The error is a [session.LimitError]: too much waits already.
func (q *Queue) Push(body any, size int) (*Write, error) {
	if len(q.waiting) >= MaxWaiting {
		return nil, &session.LimitError{Name: "pending_writes", Limit: fmt.Sprint(MaxWaiting)}
	}
	if len(q.waiting) > 0 && q.waitingBytes+size > MaxWaitingBytes {
		return nil, &session.LimitError{Name: "pending_write_bytes", Limit: fmt.Sprint(MaxWaitingBytes)}
	}
	w := &Write{Body: body, size: size}
	q.waiting = append(q.waiting, w)
	q.waitingBytes += size
	return w, nil
}

// Acked returns the number up to which all results are in hand (X1 numbered writes).
func (q *Queue) Acked() uint64 { return q.lowest - 1 }

// Unanswered returns how many writes have a number and no answer, or wait for a number.
func (q *Queue) Unanswered() int { return len(q.sent) + len(q.waiting) }

// Next returns the next write to be sent on the present attachment, false if none may be sent now.
func (q *Queue) Next(now time.Time) (Send, bool) {
	if !q.resumed || now.Before(q.until) {
		return Send{}, false
	}
	for q.out < len(q.sent) && q.sent[q.out].report != nil {
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
		if w.report == nil {
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
		if w.report == nil && !w.gaveUp {
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

// Wake returns when to call [Queue.Next] again even without other events, false for never.
func (q *Queue) Wake() (time.Time, bool) {
	return q.until, q.resumed && !q.until.IsZero() && q.Unanswered() > 0
}

// find returns the unanswered write of a number, nil if there is none.
func (q *Queue) find(number uint64) *Write {
	if number < q.lowest || number >= q.next() {
		return nil
	}
	if w := q.sent[number-q.lowest]; w.report == nil {
		return w
	}
	return nil
}

// setReport records the report of a write.
func (q *Queue) setReport(w *Write, r Report) {
	if r.Fate == Unknown && w.never {
		r.Fate = Never
	}
	r.Write, r.Late = w, w.gaveUp
	w.report = &r
	q.bytes -= w.size
}

// pop returns the reports for callers, in the order of the numbers. A caller that gave up gets no report twice.
func (q *Queue) pop() (all []Report) {
	for len(q.sent) > 0 && q.sent[0].report != nil {
		if r := q.sent[0].report; !r.Late || r.Fate != Unknown {
			all = append(all, *r)
		}
		q.sent[0] = nil
		q.sent = q.sent[1:]
		q.lowest++
		q.out = max(q.out-1, 0)
	}
	return all
}
