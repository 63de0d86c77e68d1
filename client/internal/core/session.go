package core

import (
	"time"

	"holdfast/client/internal/window"
	"holdfast/session"
)

// Session is a session that the client holds, or is taking hold of while a caller joins it.
type Session struct {
	// Handle is what the application has of the session.
	Handle any

	id      session.ID
	owner   session.Node // as of the newest grant
	token   session.Token
	timeout time.Duration // 0 before the first grant
	state   State
	err     error   // why it has ended
	branch  *branch // what it does with the tree; nil before its first write or read
	promise
	attachment
	callers
}

// promise is what a session was promised (S3).
type promise struct {
	// until is the latest promise; zero while there is none.
	until time.Time
	// promised is when the newest promise was asked for.
	promised time.Time
	// renewBy is when the client leaves a node that has not renewed the promise.
	renewBy time.Time
}

// attachment is where a session is served, and what is on its way about that.
type attachment struct {
	// on is the connection that serves it, nil while none does, and since the newest request there when it was
	// attached.
	on       *Conn
	since    uint64
	resuming *window.Request
	// contested counts the refusals of a caller who takes the session over because another process was ahead, kept those
	// because the holder keeps the session for a while. See answers.takeOver.
	contested, kept int
	// doubted: the session was resumed because a node said that it had moved, and not who has it. See answers.moved.
	doubted bool
}

// callers wait for something that is done to a session.
type callers struct {
	joining   *Call   // waits for the first attachment
	closing   []*Call // wait for the end
	upgrading []*Call // wait for the session to be global
	closeSent bool
	// upgradeSent: an upgrade was sent whose outcome is not known. The session may be at home at every node.
	upgradeSent bool
}

// ID returns the session's id.
func (h *Session) ID() session.ID { return h.id }

// Until returns the latest promise; zero while there is none.
func (h *Session) Until() time.Time { return h.until }

// Attached reports whether a connection serves the session.
func (h *Session) Attached() bool { return h.on != nil }

// either returns the first trigger while a promise holds, else the second. A session that is being closed is promised
// nothing, and misses nothing.
func (h *Session) either(promised, unpromised trigger) trigger {
	if h.until.IsZero() && len(h.closing) == 0 {
		return unpromised
	}
	return promised
}

// askedAt reports whether a resume of h is on c.
func (h *Session) askedAt(c *Conn) bool {
	if h.resuming == nil {
		return false
	}
	b, ok := h.resuming.Body.(*resumeBody)
	return ok && b.on == c
}
