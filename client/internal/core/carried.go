package core

import (
	"time"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	trees "holdfast/client/internal/core/tree"
	"holdfast/client/internal/window"
)

// carried adapts the client's sessions and tree requests to conn.Needs and conn.Handler.
type carried struct {
	sessions *sessions.Manager
	tree     *trees.Manager
}

var (
	_ conn.Needs   = carried{}
	_ conn.Handler = carried{}
)

// Idle implements conn.Needs.
func (u carried) Idle() bool { return u.sessions.Idle() && u.tree.Idle() }

// Held implements conn.Needs.
func (u carried) Held() conn.Held { return u.sessions.Held() }

// NeedsLeader implements conn.Needs.
func (u carried) NeedsLeader(c *conn.Conn) bool {
	return u.tree.NeedsLeader() || u.sessions.NeedsLeader(c)
}

// Serves implements conn.Needs.
func (u carried) Serves(c *conn.Conn) bool { return u.sessions.Serves(c) }

// TooLate implements conn.Needs. Only resumes wait for a promise.
func (u carried) TooLate(r *window.Request, spare time.Duration) bool {
	return u.sessions.TooLate(r, spare)
}

// CandidateUp implements conn.Handler. Requests of the tree follow when the candidate is current.
func (u carried) CandidateUp(c *conn.Conn) { u.sessions.CandidateUp(c) }

// ResumeSessions implements conn.Handler.
func (u carried) ResumeSessions() { u.sessions.ResumeSessions() }

// SendOpens implements conn.Handler.
func (u carried) SendOpens() { u.sessions.SendOpens() }

// Dropped implements conn.Handler.
func (u carried) Dropped(c *conn.Conn, err error) {
	u.sessions.Dropped(c, err)
	u.tree.Dropped(c)
}

// Denied implements conn.Handler.
func (u carried) Denied(err error) {
	u.sessions.Denied(err)
	u.tree.Denied(err)
}

// Jeopardy implements conn.Handler.
func (u carried) Jeopardy(c *conn.Conn, err error) { u.sessions.Jeopardy(c, err) }

// ReadOnly implements conn.Handler.
func (u carried) ReadOnly(c *conn.Conn) { u.sessions.ReadOnly(c) }

// ReadsEnded implements conn.Handler.
func (u carried) ReadsEnded(c *conn.Conn) { u.sessions.ReadsEnded(c) }

// ClusterChanged implements conn.Handler. Sessions need no reset: the new cluster refuses them.
func (u carried) ClusterChanged() { u.tree.ClusterChanged() }

// SignOfLife implements conn.Handler.
func (u carried) SignOfLife(c *conn.Conn) conn.Body { return u.sessions.SignOfLife(c) }
