package pending

import (
	"time"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
)

// Write is a numbered write of a client (X1 numbered writes).
type Write struct {
	Session session.ID
	// Attachment is the attachment that the client process had when it wrote (W3 attachment check).
	Attachment uint64
	// Number counts the session's writes from 1. Acked says that the client has all results up to that number.
	Number, Acked uint64
	// ReadsBefore says that reads of the session wait between its previous write and this one (G3 order in a session).
	ReadsBefore bool
	// Void uses up the number and has no other effect (X6 giving up). Its body is empty.
	Void bool
	// Body is the rest of the write, encoded. The queue keeps it until the write is answered, and never modifies it.
	Body []byte
	// Weight is the weight of the write (U2 weight); 1 or more.
	Weight uint32
	// Connection is the node's number of the write's connection: connections share the way to the leader. Principal is
	// the owner of the memory budget that the write uses, see [tree.ShareNumber].
	Connection, Principal uint64
}

func (w *Write) size() int { return len(w.Body) + Overhead }

// Outcome is the state's decision about a write.
type Outcome struct {
	Session session.ID
	// Attachment and Number are the write's.
	Attachment, Number uint64
	// At is the position in the log of the decided copy. The write's own stamp is in its result (G4 stamps of answers).
	At tree.Stamp
	// Result is the kept result of the write; nil with an Err. It must not be modified.
	Result []byte
	// Err is why there is no result.
	Err error
	// Before is the tree before the write, for the reads of the session that wait for it; nil if the log has executed
	// another copy of the write, or a copy without ReadsBefore.
	Before tree.Frozen
}

// entry is an unanswered write, or an answered one behind an unanswered one.
type entry struct {
	Write
	answered bool
}

// queue has a node's pending writes of one attachment.
type queue struct {
	session    session.ID
	attachment uint64
	// began is the attachment's first number; 0 before it writes. lowest is the number of pending[0], the lowest write
	// without an answer.
	began, lowest uint64
	pending       []entry
	bytes         int
	// connection and principal are those of the attachment's first write. member is the connection's part of the node's
	// memory budget; nil before that write.
	connection, principal uint64
	member                *fair.Member[uint64, uint64]
	// acked says that the client has all results up to this number.
	acked uint64
	// out counts the writes in flight: the first of pending, of which a copy was sent since the queue went back. At
	// most maxInFlight writes may be in flight.
	out, maxInFlight int
	// refusals counts refusals in a row, without an answer between them.
	refusals int
	// until is the earliest time to send again after a refusal. window says that the refusal was WINDOW.
	until  time.Time
	window bool
	// place is the index among the queues with unanswered writes; -1 for none.
	place int
	// turn is the item in the queue of queues that may send. listed says that it is queued.
	turn   fair.Item[uint64, *queue]
	listed bool
	timer  timer
}

// release frees bytes of writes.
func (q *queue) release(bytes int) {
	q.bytes -= bytes
	q.member.Release(bytes)
}

// expected is the number that the next write must have (X8 admission of writes).
func (q *queue) expected() uint64 { return q.lowest + uint64(len(q.pending)) }

// find returns the pending write with a number; nil for none.
func (q *queue) find(number uint64) *entry {
	if number < q.lowest || number >= q.expected() {
		return nil
	}
	if p := &q.pending[number-q.lowest]; !p.answered {
		return p
	}
	return nil
}

// acknowledge records that a write is answered. For each answer the queue may have one more write in flight, so the
// window doubles with each round (X7).
func (q *queue) acknowledge(p *entry, limit int) {
	p.answered = true
	q.release(p.size())
	p.Body = nil
	q.refusals, q.window = 0, false
	q.maxInFlight = min(q.maxInFlight+1, limit)
	for len(q.pending) > 0 && q.pending[0].answered {
		q.pending[0] = entry{}
		q.pending = q.pending[1:]
		q.lowest++
		q.out = max(q.out-1, 0)
	}
}

// rewind makes the lowest pending write the next to send, and opens the whole window of limit writes: the copies are
// lost, and no refusal requires a wait.
func (q *queue) rewind(limit int) {
	q.out, q.maxInFlight, q.refusals, q.until, q.window = 0, limit, 0, time.Time{}, false
}

// refused goes back to the lowest pending write after the leader or the state refused a copy of any number (X7 queue of
// the node). It goes back even if the number has been answered meanwhile: a later write may have needed the refused
// copy before it. The queue then waits as long as the refusal says, and sends one write.
//
// A number that was not sent since the queue last went back changes only the wait: no later write was sent that could
// miss the copy. Otherwise a full window behind one missing write would send that write 255 times.
func (q *queue) refused(number uint64, why refusal, now time.Time) {
	wait := why.wait
	if number < q.lowest+uint64(q.out) {
		q.out, q.maxInFlight, q.window = 0, 1, why.window
		q.refusals++
		if !why.gap || q.refusals > 1 { // after a first gap, an earlier write is on its way, or known to be refused
			wait = max(wait, min(session.BusyRetryAfter<<min(q.refusals-1, 10), maxWait))
		}
	}
	if until := now.Add(wait); wait > 0 && until.After(q.until) {
		q.until = until
	}
}

// refusal is why a copy was refused.
type refusal struct {
	// wait is the wait in the refusal; 0 for none.
	wait time.Duration
	// gap: an earlier write was missing. window: results wait for acknowledgement.
	gap, window bool
}

// acknowledged records that the client has all results up to a number. It ends the wait of a queue that waits because
// the state keeps too many results. No client has results of pending writes, so the number is limited: a wrong
// acknowledgement must not drop the results of a later client process.
func (q *queue) acknowledged(upTo uint64) {
	if upTo = min(upTo, q.lowest-1); upTo <= q.acked {
		return
	}
	q.acked = upTo
	if q.window {
		q.until, q.window = time.Time{}, false
	}
}

// sends returns the next write to send; nil if none may be sent now.
func (q *queue) sends(now time.Time) *entry {
	for q.out < len(q.pending) && q.pending[q.out].answered {
		q.out++
	}
	if q.out == len(q.pending) || q.out >= q.maxInFlight || now.Before(q.until) {
		return nil
	}
	return &q.pending[q.out]
}
