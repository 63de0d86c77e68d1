package core

import (
	"holdfast/client/internal/window"
	"holdfast/session"
)

// requests decides what to ask on which connection.
type requests struct{ moves }

// queueOpen queues an open on the present connection. An open that needs a leader waits while that is to a read-only
// node, and may probe the candidate.
func (q *requests) queueOpen(call *Call) {
	switch c := q.cur; {
	case c == nil:
	case call.Want.Local || !q.readOnly(c):
		q.sendOpen(c, call)
	default:
		q.parkOpen(c, call)
		if q.next != nil && q.next.probing {
			q.probe(q.next)
		}
	}
}

func (q *requests) sendOpen(c *Conn, call *Call) *window.Request {
	call.on = c
	return c.window.Push(&openBody{call, c})
}

// queueOpens queues all opens that are on no connection.
func (q *requests) queueOpens() {
	for call := range q.opens {
		if call.h == nil && call.on == nil {
			q.queueOpen(call)
		}
	}
}

func (q *requests) queueResume(c *Conn, h *Session) {
	h.resuming = c.window.Push(&resumeBody{h: h, on: c})
}

func (q *requests) queueClose(h *Session) {
	h.on.window.Push(&closeBody{h})
}

func (q *requests) queueUpgrade(h *Session) {
	h.on.window.Push(&upgradeBody{h})
}

// rejoin queues a resume for every session that no connection serves and that has no resume under way: on the
// candidate, or else on the present connection.
func (q *requests) rejoin() {
	c := q.cur
	tried := q.next != nil && !q.next.probing
	if q.readOnly(c) && !tried {
		q.park(c)
	}
	switch {
	case tried:
		c = q.next
	case q.next != nil:
		q.probe(q.next)
		return
	case c == nil || q.readOnly(c):
		return
	}
	for _, h := range q.sessions {
		if h.on == nil && h.resuming == nil {
			q.queueResume(c, h)
		}
	}
}

// hold begins to hold a session for a caller.
func (q *requests) hold(call *Call, t session.Token) *Session {
	h := &Session{id: t.ID, token: t, state: StateConnecting, callers: callers{joining: call}}
	h.Handle, call.h = call.Session, h
	q.sessions[t.ID] = h
	return h
}

// join begins to hold the session of t, and resumes it.
func (q *requests) join(call *Call, t session.Token) {
	q.hold(call, t)
	q.rejoin()
}

// pump sends queued requests, as far as the window allows.
func (q *requests) pump(c *Conn) {
	c.window.Resume(q.now)
	if !c.up {
		return
	}
	for r := c.window.First(); r != nil && q.sendFirst(c, r); r = c.window.First() {
	}
}

// sendFirst sends the first request of the queue, alone or with others. It reports false when that cannot be sent now.
func (q *requests) sendFirst(c *Conn, first *window.Request) bool {
	if goesAlong(first.Body) && !c.alone {
		switch {
		case c.untold():
			return false
		case c.batch > 1:
			return q.sendResumes(c)
		}
	}
	r := c.window.Next()
	if r == nil {
		return false
	}
	q.send(c, r)
	return true
}

func (q *requests) send(c *Conn, r *window.Request) {
	b, ok := r.Body.(body)
	if !ok {
		return // only bodies are queued
	}
	c.window.Send(r, q.now, q.suspensions)
	q.effects.Actions = append(q.effects.Actions, Action{Conn: c, Message: b.message(&q.ledger, r.Seq)})
}
