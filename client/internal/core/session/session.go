package session

import (
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/window"
	"holdfast/session"
)

// Session is a session that the client holds, or that a caller is resuming.
type Session struct {
	// Handle is the application's session.
	Handle any

	id         session.ID
	owner      session.Node // as of the newest grant
	token      session.Token
	timeout    time.Duration // 0 before the first grant
	state      State
	err        error // why the session has ended
	promise    promise
	attachment attachment
	callers    callers
}

// promise is what the cluster has promised a session (S3 length of a promise).
type promise struct {
	// until is the latest promise; zero for none.
	until time.Time
	// requestedAt is when the client sent the request that brought the newest promise.
	requestedAt time.Time
	// renewBy is when the client leaves a node that has not renewed the promise.
	renewBy time.Time
}

// attachment is where a session is served, and which request is about to change that.
type attachment struct {
	// on is the connection that serves the session; nil for none. since is the newest request that was in flight there
	// when the session was attached.
	on       *conn.Conn
	since    uint64
	resuming *window.Request
	// contested counts refused take-overs because another process was faster. kept counts refused take-overs because
	// the holder keeps the session for a while. See takeOver.
	contested, kept int
	// doubted: the client has resumed the session because a node said that it had moved, without naming a process. See
	// moved.
	doubted bool
}

// callers wait for something to be done to a session.
type callers struct {
	joining   *Call   // waits for the first attachment
	closing   []*Call // wait for the end
	upgrading []*Call // wait for the session to be global
	closeSent bool
	// upgradeSent: an upgrade was sent whose outcome is unknown. The session may be at home at every node.
	upgradeSent bool
}

// ID returns the session's id.
func (h *Session) ID() session.ID { return h.id }

// Until returns the latest promise; zero for none.
func (h *Session) Until() time.Time { return h.promise.until }

// Conn returns the connection that serves the session; nil for none.
func (h *Session) Conn() *conn.Conn { return h.attachment.on }

// Attached reports whether a connection serves the session.
func (h *Session) Attached() bool { return h.attachment.on != nil }

// Resuming reports whether a resume of the session is pending.
func (h *Session) Resuming() bool { return h.attachment.resuming != nil }

// Local reports whether the session is local to a node.
func (h *Session) Local() bool { return h.token.Local }

// Err returns why the session has ended; nil while the client holds it.
func (h *Session) Err() error { return h.err }

// ServedBy reports whether the session was attached to c before a request was sent there as seq, and still is. An
// answer to any other request says nothing about the present attachment.
func (h *Session) ServedBy(c *conn.Conn, seq uint64) bool {
	return h.attachment.on == c && seq > h.attachment.since
}

// either returns the first trigger while a promise holds, else the second. A session that is being closed needs no
// promise.
func (h *Session) either(promised, unpromised trigger) trigger {
	if h.promise.until.IsZero() && len(h.callers.closing) == 0 {
		return unpromised
	}
	return promised
}

// resumingOn reports whether a resume of the session is on c.
func (h *Session) resumingOn(c *conn.Conn) bool {
	if h.attachment.resuming == nil {
		return false
	}
	b, ok := h.attachment.resuming.Body.(*resumeBody)
	return ok && b.on == c
}

// touchable reports whether touches on c keep the session alive.
func (h *Session) touchable(c *conn.Conn) bool {
	return h.attachment.on == c && len(h.callers.closing) == 0
}
