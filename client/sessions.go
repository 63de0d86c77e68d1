package client

import (
	"context"
	"errors"
	"time"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// open asks for a session and waits for it.
func (l *loop) open(ctx context.Context, o SessionOptions) (*Session, error) {
	c := newCall(ctx)
	c.opts, c.request = o, o.RequestID
	if c.request == (session.RequestID{}) {
		c.request = newRequestID()
	}
	started := l.post(func() {
		l.opens[c] = struct{}{}
		l.queueOpen(c)
	})
	if !started {
		return nil, session.ErrClosed
	}
	return l.wait(c)
}

// resume takes hold of a session and waits for it.
func (l *loop) resume(ctx context.Context, t session.Token) (*Session, error) {
	c := newCall(ctx)
	started := l.post(func() {
		if _, held := l.sessions[t.ID]; held {
			c.settle(nil, ErrHeld)
			return
		}
		l.join(c, t)
	})
	if !started {
		return nil, session.ErrClosed
	}
	return l.wait(c)
}

// close ends a session and waits for that.
func (l *loop) close(ctx context.Context, s *Session) error {
	c := newCall(ctx)
	c.closes = true
	started := l.post(func() { l.beginClose(c, s) })
	if !started {
		return session.ErrClosed
	}
	_, err := l.wait(c)
	return err
}

func (l *loop) beginClose(c *call, s *Session) {
	h := l.sessions[s.id]
	if h == nil || h.s != s {
		err := s.Err()
		if errors.Is(err, session.ErrClosed) {
			err = nil
		}
		c.settle(nil, err)
		return
	}
	c.h = h
	h.closing = append(h.closing, c)
	h.until = time.Time{} // Close has told the session
	if len(h.closing) == 1 && h.on != nil {
		l.queueClose(h)
	}
}

// queueOpen sends an open on the connection there is, or has one made. While that is to a read-only node, an open waits
// for a better one, which it may be the one to find: see probe.
func (l *loop) queueOpen(call *call) {
	switch c := l.cur; {
	case c == nil:
	case call.opts.Local || !l.readOnly(c):
		l.sendOpen(c, call)
	default:
		l.parkOpen(c, call)
		if l.next != nil && l.next.probing {
			l.probe(l.next)
		}
	}
}

func (l *loop) sendOpen(c *conn, call *call) *request {
	call.on = c
	r := &request{body: &openBody{call, c}}
	c.queue = append(c.queue, r)
	return r
}

// queueOpens is queueOpen for all opens that are on no connection.
func (l *loop) queueOpens() {
	for call := range l.opens {
		if call.h == nil && call.on == nil {
			l.queueOpen(call)
		}
	}
}

func (l *loop) queueResume(c *conn, h *held) {
	h.resuming = &request{body: &resumeBody{h: h, on: c}}
	c.queue = append(c.queue, h.resuming)
}

func (l *loop) queueClose(h *held) {
	h.on.queue = append(h.on.queue, &request{body: &closeBody{h}})
}

// join begins to take hold of the session of t.
func (l *loop) join(c *call, t session.Token) {
	h := &held{s: newSession(c.ctx, l, t), token: t, joining: c}
	c.h = h
	l.sessions[t.ID] = h
	l.rejoin()
}

// rejoin queues a resume for every session that no connection serves and none is under way for; at a read-only node for
// local ones.
func (l *loop) rejoin() {
	c := l.cur
	tried := l.next != nil && !l.next.probing
	if l.readOnly(c) && !tried {
		l.park(c)
	}
	switch {
	case tried:
		c = l.next
	case l.next != nil:
		l.probe(l.next)
		return
	case c == nil || l.readOnly(c):
		return
	}
	for _, h := range l.sessions {
		if h.on == nil && h.resuming == nil {
			l.queueResume(c, h)
		}
	}
}

// attach notes that c serves h, as an open or a resume brought about.
func (l *loop) attach(h *held, c *conn, r *request, g session.Grant) {
	first := h.timeout == 0
	h.on, h.since, h.token = c, c.seq, g.Token
	if h.resuming == r {
		h.resuming = nil
	}
	h.unheard = h.resuming != nil // an older one would be refused (M1)
	if first {
		h.timeout, h.s.timeout = g.Session.Timeout, g.Session.Timeout
	}
	h.s.grant(g.Session, g.Token)
	h.renewBy = l.now.Add(h.timeout / lostPart)
	l.dueAt = route.Earliest(l.dueAt, h.renewBy)
	c.smallest = minPositive(c.smallest, h.timeout)
	c.touchAt = route.Earliest(c.touchAt, r.sent.Add(h.timeout/touchPart))
	back := l.promise(h, r, g.SafeFor, h.timeout)
	l.emit(h, h.either(served, servedUnpromised), nil)
	if back && !first {
		l.emit(h, regained, nil)
	}
	if l.readOnly(c) { // it was under way when the node became so
		l.toReadOnly(h, c)
		l.lookFurther(c)
	}
	if len(h.closing) > 0 {
		l.queueClose(h)
	}
	l.goOnUpgrading(h)
	if h.joining != nil {
		delete(l.opens, h.joining)
		l.occupancy.note(len(l.sessions), l.takesWrites()) // before the caller goes on, and is not counted any more
		h.joining.settle(h.s, nil)
		h.joining = nil
	}
}

// abandon lets go of a session that nobody waits for any more. If a node serves it, or will, touches must leave it out.
// One that an open brought is closed, unless another process has resumed it since: its token names that one's
// attachment then (see takeOver).
func (l *loop) abandon(h *held, err error) {
	for _, c := range []*conn{l.cur, l.next} {
		if c != nil {
			c.stray = true
		}
	}
	opened := h.joining != nil && h.joining.opts.Timeout != 0 && h.contested == 0
	if opened && l.cur != nil {
		l.cur.queue = append(l.cur.queue, &request{body: &discardBody{h.token}})
	}
	if len(h.closing) == 0 && h.joining == nil {
		err = session.ErrClosed
	}
	l.end(h, err)
}

// closed ends a session as its client wished. Whoever waits for that finds it ended: its last event is there, and Err
// says why.
func (l *loop) closed(h *held) {
	closing := h.closing
	h.closing = nil
	l.end(h, session.ErrClosed)
	for _, c := range closing {
		c.settle(nil, nil)
	}
}

// expired ends a session as the cluster says. A close that took effect, and whose answer was lost, is one that was
// wished.
func (l *loop) expired(h *held, err error) {
	e := &session.ExpiredError{ID: h.s.id}
	if known, ok := errors.AsType[*session.ExpiredError](err); ok {
		e.Certificate = known.Certificate
		if h.token.Local { // of one that was global the log has forgotten the end: there is nothing to ask a node for
			e.LocalTo = known.LocalTo
		}
	}
	if h.closeSent && e.Certificate != nil && e.Certificate.Cause == session.CauseClosed {
		l.closed(h)
		return
	}
	l.end(h, e)
}

// end lets go of a session and tells everyone who waits for it.
func (l *loop) end(h *held, err error) {
	delete(l.sessions, h.s.id)
	h.resuming, h.until = nil, time.Time{}
	l.emit(h, ending(err), err)
	h.s.end(err)
	h.on = nil
	for _, c := range h.closing {
		c.settle(nil, err)
	}
	for _, c := range h.upgrading {
		c.settle(nil, err)
	}
	if h.joining != nil {
		delete(l.opens, h.joining)
		h.joining.settle(nil, err)
	}
}

// promise takes what the answer to r promises for h, smallest being the smallest timeout that the answer is about. It
// reports whether that ended a lapse.
func (l *loop) promise(h *held, r *request, safeFor, smallest time.Duration) (regained bool) {
	until := r.sent.Add(safeFor)
	if safeFor < 0 || !until.After(l.now) || r.suspensions != l.suspensions || len(h.closing) > 0 {
		return false
	}
	regained = h.until.IsZero()
	until = route.Latest(h.until, until) // a promise once given stands
	if h.s.promise(until, l.suspensions) && !regained {
		// The timer of the former promise was faster than this turn of the loop. Who waits for Regained has to be told.
		h.until, regained = time.Time{}, true
		l.emit(h, lapsed, ErrLapsed)
	}
	h.until = until
	if !r.sent.Before(h.promised) {
		h.promised = r.sent
		h.renewBy = renewBy(r.sent, safeFor, smallest, h.until)
		if h.on != nil {
			next := r.sent.Add(touchIn(safeFor, smallest))
			h.on.touchAt = route.Earliest(h.on.touchAt, route.Latest(next, h.on.touched.Add(smallest/answerPart)))
		}
	}
	l.dueAt = route.Earliest(route.Earliest(l.dueAt, h.until), h.renewBy)
	return regained
}

// lapse drops the promise of h, if it has one.
func (l *loop) lapse(h *held) {
	if h.until.IsZero() {
		return
	}
	h.until = time.Time{}
	h.s.lapse()
	l.emit(h, lapsed, ErrLapsed)
}

// checkSessions ends promises that have run out and leaves a node that does not renew them. It walks the sessions only
// when something can be due.
func (l *loop) checkSessions() {
	if l.dueAt.IsZero() || l.now.Before(l.dueAt) {
		return
	}
	l.dueAt = time.Time{}
	for _, h := range l.sessions {
		if !h.until.IsZero() && !l.now.Before(h.until) {
			l.lapse(h)
		}
		if h.on != nil && len(h.closing) == 0 {
			if !l.now.Before(h.renewBy) {
				l.silent(h)
				h.renewBy = l.now.Add(h.timeout / lostPart)
			}
			l.dueAt = route.Earliest(l.dueAt, h.renewBy)
		}
		l.dueAt = route.Earliest(l.dueAt, h.until)
	}
}

// either returns the first trigger while a promise holds, else the second. A session that is being closed is promised
// nothing, and misses nothing.
func (h *held) either(promised, unpromised trigger) trigger {
	if h.until.IsZero() && len(h.closing) == 0 {
		return unpromised
	}
	return promised
}

// emit has the session's state follow what happened, and tells its reader.
func (l *loop) emit(h *held, t trigger, err error) {
	from, to := h.s.enter(t)
	e := Event{Kind: t.kind(), From: from, State: to, At: l.now, Node: h.s.Owner(), SafeUntil: h.until, Err: err}
	if h.on != nil {
		e.Address = h.on.Address
	} else if to == StateConnectedReadOnly && l.cur != nil {
		e.Address = l.cur.Address
	}
	h.s.events.push(e)
}
