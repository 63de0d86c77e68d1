package proposer

import (
	"holdfast/session"
	"holdfast/session/fair"
)

// writeQueue holds the writes of all clients to the tree. Connections with waiting writes get equal parts of the log,
// in bytes and weight (W9 fair turns).
type writeQueue struct {
	// queue has all writes, the oldest first, for their deadlines.
	queue
	// shares has the same writes in the order in which they are sent.
	shares fair.Queue[session.Source, *proposal]
}

func (w *writeQueue) push(q *proposal) {
	w.queue.push(q)
	w.shares.Push(&q.share, q.source, q.price())
}

// next returns the write to send next, or nil when no write waits.
func (w *writeQueue) next() *proposal {
	if next := w.shares.First(); next != nil {
		return next.Value
	}
	return nil
}

// removeSent removes a write that is sent, and charges its connection. remove removes a write that is not sent.
func (w *writeQueue) removeSent(q *proposal) {
	w.queue.remove(q)
	w.shares.Serve(&q.share)
}

func (w *writeQueue) remove(q *proposal) {
	w.queue.remove(q)
	w.shares.Remove(&q.share)
}

// commandBytes is the minimum cost of a write, so that many small writes are no cheaper than a few large writes.
const commandBytes = 64

// price returns the cost of a write for its connection, in bytes.
func (q *proposal) price() int { return commandBytes + session.WriteCost(len(q.encoded), q.weight) }
