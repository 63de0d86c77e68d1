package fsm

import (
	"holdfast/session"
	"holdfast/session/fair"
)

// writeLane holds the writes to the tree of all clients. They go to the log as their sources share it (W9): the
// connections with writes waiting get the same part of it, in bytes and weight. Without: a client with one write waits
// for all that 20 others have queued, megabytes each.
type writeLane struct {
	// lane has all of them, the oldest first, for their deadlines.
	lane
	turns fair.Queue[session.Source, *proposal]
}

func (w *writeLane) push(q *proposal) {
	w.lane.push(q)
	w.turns.Push(&q.turn, q.source, q.price())
}

// next returns the write whose turn it is, nil without writes.
func (w *writeLane) next() *proposal {
	if turn := w.turns.First(); turn != nil {
		return turn.Value
	}
	return nil
}

// take removes a write that is sent, remove one that is not.
func (w *writeLane) take(q *proposal) {
	w.lane.remove(q)
	w.turns.Serve(&q.turn)
}

func (w *writeLane) remove(q *proposal) {
	w.lane.remove(q)
	w.turns.Remove(&q.turn)
}

// commandBytes is what a write costs its source at least, so that many small ones are no cheaper than a few larger ones.
const commandBytes = 64

// price is what a write costs its source, in bytes.
func (q *proposal) price() int { return commandBytes + session.WriteCost(len(q.encoded), q.weight) }
