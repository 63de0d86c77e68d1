package session

import (
	"time"

	"holdfast/session"
)

// Effects are the events for the application about its sessions, in the order of the fields and of their elements.
type Effects struct {
	// Lapsed are sessions whose promise has run out.
	Lapsed []*Session
	// Granted are sessions that a node has begun to serve, or that have become global.
	Granted []Granted
	// Promised are promises that are longer than the former promises.
	Promised []Promised
	// Events are for the readers of the sessions' events.
	Events []Event
	// Ended are sessions that have ended for this client.
	Ended []Ended
	// Answers are for callers. They follow the effects of package tree.
	Answers []Answer
}

// Granted is the outcome of an open, a resume or an upgrade. If the Session of the Grant has no id, only its owner and
// its attachment are new.
type Granted struct {
	Session *Session
	Grant   session.Grant
}

// Promised is a promise. Regained: there was none before.
type Promised struct {
	Session *Session
	// Handle is the session's. A touch renews thousands of promises, and a visit to each session for its handle would
	// cost as much as the promise.
	Handle   any
	Until    time.Time
	Regained bool
}

// Event is something that happened to a session.
type Event struct {
	Session   *Session
	Kind      Kind
	From, To  State
	At        time.Time
	Node      session.Node
	Address   string
	SafeUntil time.Time
	Err       error
}

// Ended is the end of a session for this client.
type Ended struct {
	Session *Session
	Err     error
}

// Answer is the answer to a caller.
type Answer struct {
	Call    *Call
	Session *Session
	Err     error
}

// Reset empties the effects of the last turn and reuses their memory.
func (e *Effects) Reset() {
	empty(&e.Lapsed)
	empty(&e.Granted)
	empty(&e.Promised)
	empty(&e.Events)
	empty(&e.Ended)
	empty(&e.Answers)
}

func empty[E any](all *[]E) {
	clear(*all)
	*all = (*all)[:0]
}
