package core

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// Effects are what a turn brings about. The caller does what the fields say in their order, and the elements of each in
// theirs, before the next turn, which reuses them.
type Effects struct {
	// Seen is the highest index that a node of Cluster has told (N4). A read that follows from anything below demands it.
	Seen uint64
	// Cluster is the identity of the cluster that Seen and Stamp are of, 0 until it is known.
	Cluster uint64
	SessionEffects
	TreeEffects
	// Actions are on connections.
	Actions []Action
	// Lookups are names to resolve: each is answered with [Resolved].
	Lookups []Lookup
	// Learnt are the addresses that nodes have told; nil when that has not changed.
	Learnt []string
	// Load is what a pool wants to know.
	Load Load
	// Adopted is the server that serves from now on; empty when that has not changed.
	Adopted string
	// Answers are for callers.
	Answers []Answer
	// Logs are for the log.
	Logs []Log
	// Moved says that Position has changed.
	Moved    bool
	Position Position

	// WakeAt is when the next turn is due if nothing happens before; zero for never.
	WakeAt time.Time
}

// SessionEffects are the part of [Effects] about sessions.
type SessionEffects struct {
	// Lapsed are sessions that have no promise any more.
	Lapsed []*Session
	// Granted are sessions that a node serves from now on, or that have become global.
	Granted []Granted
	// Promised are promises that are later than the former ones.
	Promised []Promised
	// Events are for the readers of sessions' events.
	Events []Event
	// Ended are sessions that have ended for this client.
	Ended []Ended
}

// Granted is what an open, a resume or an upgrade brought. When the Session of the Grant has no id, only its owner and
// its attachment are new.
type Granted struct {
	Session *Session
	Grant   session.Grant
}

// Promised is a promise. Regained says that there was none before it.
type Promised struct {
	Session *Session
	// Handle is that of the session. A touch renews thousands of promises, and looking each session up again for its
	// handle costs as much as the promise.
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

// reset empties what the last turn brought about, and keeps the room.
func (e *Effects) reset() {
	empty(&e.Lapsed)
	empty(&e.Granted)
	empty(&e.Promised)
	empty(&e.Events)
	empty(&e.Ended)
	empty(&e.Heard)
	empty(&e.Done)
	empty(&e.Actions)
	empty(&e.Lookups)
	empty(&e.Answers)
	empty(&e.Logs)
	e.Adopted, e.Moved, e.Learnt = "", false, nil
}

func empty[E any](s *[]E) {
	clear(*s)
	*s = (*s)[:0]
}

func (e *Effects) log(level hclog.Level, message string, args ...any) {
	e.Logs = append(e.Logs, Log{level, message, args})
}

func (e *Effects) hangUp(c *Conn) { e.Actions = append(e.Actions, Action{Conn: c, Do: HangUp}) }

// settle answers a caller, if it has not been answered.
func (e *Effects) settle(c *Call, h *Session, err error) {
	if c != nil && !c.settled {
		c.settled = true
		if c.inner {
			c.last = err
			return
		}
		e.Answers = append(e.Answers, Answer{c, h, err})
	}
}
