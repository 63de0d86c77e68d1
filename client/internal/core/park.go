package core

import (
	"holdfast/session"
)

// How a client that allows it stays at a read-only node (N5). The connection becomes the present one without having
// served anything, and the move goes on as if there were none: in rounds over all servers, with a back-off after each.
// What such a node would refuse is not sent to it: sessions that no node serves, and opens, are parked until another
// node serves them or this one says that it is read-write again. Those that this node serves are touched as ever:
// touches count for whoever leads next (N2).

// park has everything that needs a leader wait for one. Whether a local session does is the node's to say: it may be
// the one that knows it (L1).
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

// parkOpen is park for an open. A local one that the node cannot do, which has no ids (L2), waits as well.
func (q *requests) parkOpen(c *Conn, call *Call) {
	if call.on = nil; !call.Want.Local {
		call.last = session.ErrReadOnly
	}
	q.lookFurther(c)
}

// parkResume is park for a session whose resume the node has refused.
func (q *requests) parkResume(c *Conn, h *Session) {
	h.resuming = nil
	if q.next != nil && (h.token.Local || !q.next.probing) {
		q.queueResume(q.next, h)
		return
	}
	q.toReadOnly(h, c)
	q.lookFurther(c)
}

// holdBack takes back the resumes that wait on c: the node would refuse them one by one.
func (q *requests) holdBack(c *Conn) {
	for r := range c.window.Queued() {
		if b, ok := r.Body.(*resumeBody); ok && b.h.resuming == r && !b.h.token.Local {
			b.h.resuming = nil
		}
	}
}
