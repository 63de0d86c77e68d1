package client

import (
	"time"

	"holdfast/session"
)

// EventKind says what happened to a session.
type EventKind uint8

// Kinds of events. The last event of a session is [Moved] or [Ended].
const (
	// Connected: a node serves the session, for the first time or after a move.
	Connected EventKind = iota + 1
	// Disconnected: the connection was lost; the client looks for another node.
	Disconnected
	// Jeopardy: the node hears of no leader with a quorum; touches may not count, and the client looks for another node.
	Jeopardy
	// JeopardyEnded: touches count again.
	JeopardyEnded
	// Lapsed: the promise ran out; [Session.Context] has ended.
	Lapsed
	// Regained: there is a promise again, and a new [Session.Context].
	Regained
	// Moved: another client has resumed the session; it has ended here, with [session.ErrMoved].
	Moved
	// Ended: the session is closed, expired, or given up; Err says why.
	Ended
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
	case Moved:
		return "moved"
	case Ended:
		return "ended"
	default:
		return "unknown"
	}
}

// Event is one change of a session's state.
type Event struct {
	Kind EventKind
	At   time.Time
	// Node owns the session now, as far as the client knows, and Address is the endpoint it is or was connected to; empty
	// when none.
	Node    session.Node
	Address string
	// SafeUntil is the promise after the event; zero when there is none.
	SafeUntil time.Time
	// Err is why: of a Disconnected the connection's fault, of a Moved and an Ended what [Session.Err] returns.
	Err error
	// Dropped counts the session's events up to this one that were dropped because nobody had read them.
	Dropped uint64
}

// eventBuffer is how many unread events a session keeps; then the oldest is dropped and counted.
const eventBuffer = 64

// eventQueue is written by the loop only, so that dropping the oldest needs no lock.
type eventQueue struct {
	ch      chan Event
	dropped uint64
}

func newEventQueue() *eventQueue { return &eventQueue{ch: make(chan Event, eventBuffer)} }

func (q *eventQueue) push(e Event) {
	if len(q.ch) == cap(q.ch) {
		select {
		case <-q.ch:
			q.dropped++
		default: // a reader was faster
		}
	}
	e.Dropped = q.dropped
	q.ch <- e // there is room: the loop is the only writer
}
