package writes

import (
	"time"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
)

// Write is a numbered write of a client (X1).
type Write struct {
	Session session.ID
	// Attachment is the one that the client process speaks for (W3).
	Attachment uint64
	// Number counts the session's writes from 1. Acked says that the client has all results up to it.
	Number, Acked uint64
	// Void takes the number and does nothing else (X6). Its body is empty.
	Void bool
	// Body is the rest of the write, encoded. The queue keeps it until the write is answered; it is not modified.
	Body []byte
	// Weight is how much work the write makes (U2); 1 or more.
	Weight uint32
	// Connection is the node's number of the connection that the write came through: connections share the way to the
	// leader. Principal is whose room at the node the write takes, see [tree.ShareNumber].
	Connection, Principal uint64
}

func (w *Write) size() int { return len(w.Body) + Overhead }

// Outcome is what became of a write: as the state tells it of every write that it decides on, and as the client hears
// of it.
type Outcome struct {
	Session session.ID
	// Attachment and Number are those of the write.
	Attachment, Number uint64
	// At is the position in the log of the copy that was decided on; 0 for an answer from kept results. The write's own
	// stamp is in its result (G4).
	At tree.Stamp
	// Result is the kept one. It must not be modified.
	Result []byte
	// Err is why there is no result. For a client it is [session.ErrOutcomeUnknown], or why its attachment cannot write:
	// a [session.MovedError] or a [session.ExpiredError], which do not tell whether the write took effect, or
	// [session.ErrNoInstance], with which it did not (X5).
	Err error
}

// pending is an unanswered write, or an answered one behind an unanswered one.
type pending struct {
	Write
	answered bool
}

// queue is what a node keeps of one attachment that writes.
type queue struct {
	session    session.ID
	attachment uint64
	// began is the attachment's first number, 0 before it writes. lowest is that of pending[0]: the lowest unanswered one.
	began, lowest uint64
	pending       []pending
	bytes         int
	// connection and principal are those of the attachment's first write. member is what the connection holds of the
	// node's room; nil before that write.
	connection, principal uint64
	member                *fair.Member[uint64, uint64]
	// acked says that the client has all results up to it.
	acked uint64
	// out counts the first of pending, of which a copy was sent since the queue went back. At most room may be out.
	out, room int
	// refusals counts those in a row, without an answer between them.
	refusals int
	// until is the earliest time to send again after a refusal. window says that the refusal was WINDOW.
	until  time.Time
	window bool
	// place is the position among the queues with unanswered writes, -1 for none.
	place int
	// turn is the place in the line of those that may send. listed says that the queue is in it.
	turn   fair.Item[uint64, *queue]
	listed bool
	timer  timer
}

// give gives back bytes of writes.
func (q *queue) give(bytes int) {
	q.bytes -= bytes
	q.member.Give(bytes)
}

// expected is the number that must come next (X8).
func (q *queue) expected() uint64 { return q.lowest + uint64(len(q.pending)) }

// find returns the unanswered write of a number, nil if there is none.
func (q *queue) find(number uint64) *pending {
	if number < q.lowest || number >= q.expected() {
		return nil
	}
	if p := &q.pending[number-q.lowest]; !p.answered {
		return p
	}
	return nil
}

// answered notes that a write is answered. The queue sends one more write at a time for each answer, so what may be out
// doubles with each round (X7).
func (q *queue) answered(p *pending, most int) {
	p.answered = true
	q.give(p.size())
	p.Body = nil
	q.refusals, q.window = 0, false
	q.room = min(q.room+1, most)
	for len(q.pending) > 0 && q.pending[0].answered {
		q.pending[0] = pending{}
		q.pending = q.pending[1:]
		q.lowest++
		q.out = max(q.out-1, 0)
	}
}

// rewind makes the lowest unanswered write the next to be sent, and lets as many be out as the limit allows: the copies
// are lost, and nobody was asked to wait.
func (q *queue) rewind(most int) {
	q.out, q.room, q.refusals, q.until, q.window = 0, most, 0, time.Time{}, false
}

// refused goes back to the lowest unanswered write after a copy of any number was refused, by the leader or by the
// state (X7). It does so if the number has been answered meanwhile, too: the refused copy may have been what a later
// write needed before it. The queue then waits as told, and sends one.
//
// A number that was not sent since the queue last went back changes nothing but the wait: what could miss the copy was
// not sent either. Otherwise a full window behind one missing write would send that write 255 times.
func (q *queue) refused(number uint64, why refusal, now time.Time) {
	wait := why.wait
	if number < q.lowest+uint64(q.out) {
		q.out, q.room, q.window = 0, 1, why.window
		q.refusals++
		if !why.gap || q.refusals > 1 { // a first gap: an earlier write is on its way, or known to be refused
			wait = max(wait, min(session.BusyRetryAfter<<min(q.refusals-1, 10), mostWait))
		}
	}
	if until := now.Add(wait); wait > 0 && until.After(q.until) {
		q.until = until
	}
}

// refusal is why a copy was refused.
type refusal struct {
	// wait is the time that was named, 0 for none.
	wait time.Duration
	// gap: an earlier write was missing. window: results wait to be acknowledged.
	gap, window bool
}

// acknowledged notes that the client has all results up to a number. A queue that waits because the state keeps too
// many results need not wait any longer. No client has results of unanswered writes: one that says so must not have the
// results of a later client process dropped.
func (q *queue) acknowledged(upTo uint64) {
	if upTo = min(upTo, q.lowest-1); upTo <= q.acked {
		return
	}
	q.acked = upTo
	if q.window {
		q.until, q.window = time.Time{}, false
	}
}

// sends returns the next write to be sent, nil if none may be sent now.
func (q *queue) sends(now time.Time) *pending {
	for q.out < len(q.pending) && q.pending[q.out].answered {
		q.out++
	}
	if q.out == len(q.pending) || q.out >= q.room || now.Before(q.until) {
		return nil
	}
	return &q.pending[q.out]
}
