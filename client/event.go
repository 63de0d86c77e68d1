package client

import (
	"sync"
	"time"

	"holdfast/client/internal/core"
	"holdfast/session"
)

// EventKind says what happened to a session.
type EventKind uint8

// Kinds of events. The last event of a session is [Moved] or [Ended].
const (
	// Connected: a node serves the session, for the first time or after a move.
	Connected = EventKind(core.KindConnected)
	// Disconnected: the connection was lost, or its node does not even serve reads any more; the client looks for
	// another node.
	Disconnected = EventKind(core.KindDisconnected)
	// Jeopardy: the node hears of no leader with a quorum; touches may not count, and the client looks for another
	// node.
	Jeopardy = EventKind(core.KindJeopardy)
	// JeopardyEnded: touches count again.
	JeopardyEnded = EventKind(core.KindJeopardyEnded)
	// Lapsed: the promise ran out; [Session.Context] has ended.
	Lapsed = EventKind(core.KindLapsed)
	// Regained: there is a promise again, and a new [Session.Context].
	Regained = EventKind(core.KindRegained)
	// ReadOnly: the node that has the connection serves reads only; see [StateConnectedReadOnly].
	ReadOnly = EventKind(core.KindReadOnly)
	// Moved: another client has resumed the session; it has ended here, with [session.ErrMoved].
	Moved = EventKind(core.KindMoved)
	// Ended: the session is closed, expired, or given up; Err says why.
	Ended = EventKind(core.KindEnded)
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

// Event is something that happened to a session: each transition of its state, with the reason, and what leaves the
// state as it is (From and State are the same then).
type Event struct {
	// Kind is why the state changed, with Err.
	Kind EventKind
	// From is the state before the event, State the one after it.
	From, State State
	At          time.Time
	// Node owns the session now, as far as the client knows, and Address is the endpoint it is or was connected to;
	// empty when none.
	Node    session.Node
	Address string
	// SafeUntil is the promise after the event; zero when there is none.
	SafeUntil time.Time
	// Err is why: of a Disconnected the connection's fault, of a ReadOnly a [session.ErrReadOnly] with the node's
	// address, of a Moved and an Ended what [Session.Err] returns.
	Err error
	// Dropped counts the session's events up to this one that were dropped because nobody had read them.
	Dropped uint64
}

// eventBuffer is how many unread events a session keeps; then the oldest is dropped and counted. The newest, the last
// one of a session among them, are never dropped.
const eventBuffer = 64

// eventQueue holds what was not read yet. The loop alone pushes, so there is room after the oldest was dropped.
// Sessions whose events nobody asks for have no channel: most of a large crowd.
type eventQueue struct {
	mu      sync.Mutex
	ch      chan Event // guarded by mu; nil until it is asked for
	early   []Event    // guarded by mu; pushed before that
	dropped uint64     // guarded by mu
	ended   bool       // guarded by mu
}

// channel returns what events are read from.
func (q *eventQueue) channel() <-chan Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ch != nil {
		return q.ch
	}
	q.ch = make(chan Event, eventBuffer)
	for _, e := range q.early {
		q.ch <- e // has room: as many are kept
	}
	q.early = nil
	if q.ended {
		close(q.ch)
	}
	return q.ch
}

// push never waits: what is done under the mutex does not depend on a reader.
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

// end has readers find the end after what is left.
func (q *eventQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	if q.ch != nil {
		close(q.ch)
	}
}
