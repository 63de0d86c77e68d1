package core

import (
	"holdfast/session"
)

// How a client that allows it stays at a read-only node (N5). The connection becomes the present one although its node
// has served nothing, and the move goes on as if there were no connection: in rounds over all servers, with a back-off
// after each. The client sends nothing that such a node would refuse: opens, and sessions that no node serves, are
// parked until another node serves them or this one is read-write again. Sessions that the node serves are touched as
// ever, because touches count for the next leader (N2).

// park parks every global session that no node serves. Local sessions are resumed all the same: the node may be the one
// that knows them (L1).
func (q *requests) park(c *Conn) {
	needs := false
	for _, h := range q.sessions {
		switch {
		case h.on != nil || h.resuming != nil:
		case h.token.Local:
			q.queueResume(c, h)
		default:
			needs = true
			q.toReadOnly(h, c)
		}
	}
	if needs {
		q.lookFurther(c)
	}
}

// parkOpen parks an open. A local open waits too when the node has no ids for it (L2).
func (q *requests) parkOpen(c *Conn, call *Call) {
	if call.on = nil; !call.Want.Local {
		call.last = session.ErrReadOnly
	}
	q.lookFurther(c)
}

// parkResume parks a session whose resume the node has refused.
func (q *requests) parkResume(c *Conn, h *Session) {
	h.resuming = nil
	if q.next != nil && (h.token.Local || !q.next.probing) {
		q.queueResume(q.next, h)
		return
	}
	q.toReadOnly(h, c)
	q.lookFurther(c)
}

// holdBack takes back the resumes that wait on c, because its node would refuse them one by one.
func (q *requests) holdBack(c *Conn) {
	for r := range c.window.Queued() {
		if b, ok := r.Body.(*resumeBody); ok && b.h.resuming == r && !b.h.token.Local {
			b.h.resuming = nil
		}
	}
}
