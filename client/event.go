package client

import (
	"sync"
	"time"

	sessions "holdfast/client/internal/core/session"
	"holdfast/session"
)

// EventKind is the kind of a session's event.
type EventKind uint8

// Kinds of events. The last event of a session is [Moved] or [Ended].
const (
	// Connected: a node serves the session, for the first time or after a move.
	Connected = EventKind(sessions.KindConnected)
	// Disconnected: the connection was lost, or its node has stopped serving reads too. The client searches for another
	// node.
	Disconnected = EventKind(sessions.KindDisconnected)
	// Jeopardy: the node knows no leader with a quorum. Touches may not count, and the client searches for another
	// node.
	Jeopardy = EventKind(sessions.KindJeopardy)
	// JeopardyEnded: touches count again.
	JeopardyEnded = EventKind(sessions.KindJeopardyEnded)
	// Lapsed: the promise ran out; [Session.Context] has ended.
	Lapsed = EventKind(sessions.KindLapsed)
	// Regained: there is a promise again, and a new [Session.Context].
	Regained = EventKind(sessions.KindRegained)
	// ReadOnly: the connected node serves reads only; see [StateConnectedReadOnly].
	ReadOnly = EventKind(sessions.KindReadOnly)
	// Moved: another client has resumed the session; it has ended here, with [session.ErrMoved].
	Moved = EventKind(sessions.KindMoved)
	// Ended: the session has ended in another way than [Moved]; Err has the reason.
	Ended = EventKind(sessions.KindEnded)
)

// String returns the kind in lower case.
func (k EventKind) String() string {
	switch k {
	case Connected:
		return "connected"
	case Disconnected:
		return "disconnected"
	case Jeopardy:
		return "jeopardy"
	case JeopardyEnded:
		return "jeopardy ended"
	case Lapsed:
		return "lapsed"
	case Regained:
		return "regained"
	case ReadOnly:
		return "read-only"
	case Moved:
		return "moved"
	case Ended:
		return "ended"
	default:
		return "unknown"
	}
}

// Event is something that happened to a session: a transition of its state with the reason, or a change that leaves the
// state as it is. In the second case From and State are the same.
type Event struct {
	// Err has the reason of the event.
	Kind EventKind
	// From is the state before the event, State the one after it.
	From, State State
	// At is the moment of the event.
	At time.Time
	// Node owns the session, as far as the client knows. Address is the endpoint of the connection, or of the
	// connection that was lost; empty for none.
	Node    session.Node
	Address string
	// SafeUntil is the promise after the event; zero when there is none.
	SafeUntil time.Time
	// Err is the reason. For Disconnected it is the fault of the connection, for ReadOnly a [session.ErrReadOnly] with
	// the node's address, for Moved and Ended the error that [Session.Err] returns.
	Err error
	// Dropped counts all earlier events of the session that were dropped because the application had not read them.
	Dropped uint64
}

// eventBuffer is the number of unread events that a session keeps. A further event drops the oldest event and counts
// it, so the last event of a session is never dropped.
const eventBuffer = 64

// eventQueue holds the unread events of a session. The loop alone pushes, so the queue has capacity once the oldest
// event was dropped. A session has no channel until its application asks for events, which saves memory with many
// sessions.
type eventQueue struct {
	mu      sync.Mutex
	ch      chan Event // guarded by mu; nil until the application asks for events
	early   []Event    // guarded by mu; pushed before that
	dropped uint64     // guarded by mu
	ended   bool       // guarded by mu
}

// channel returns the channel of events, made by the first call.
func (q *eventQueue) channel() <-chan Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ch != nil {
		return q.ch
	}
	q.ch = make(chan Event, eventBuffer)
	for _, e := range q.early {
		q.ch <- e // never blocks: early holds no more than the buffer
	}
	q.early = nil
	if q.ended {
		close(q.ch)
	}
	return q.ch
}

// push adds an event without waiting for a reader.
func (q *eventQueue) push(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ch == nil && len(q.early) == eventBuffer:
		q.early = append(q.early[:0], q.early[1:]...)
		q.dropped++
	case q.ch != nil && len(q.ch) == cap(q.ch):
		select {
		case <-q.ch:
			q.dropped++
		default: // a reader was faster
		}
	}
	e.Dropped = q.dropped
	if q.ch == nil {
		q.early = append(q.early, e)
		return
	}
	q.ch <- e
}

// end closes the channel after the unread events.
func (q *eventQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	if q.ch != nil {
		close(q.ch)
	}
}
