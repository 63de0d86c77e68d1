package client

import (
	"errors"
	"slices"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// arrived handles what a connection tells. A connection that was dropped meanwhile has nothing to say any more.
func (l *loop) arrived(a arrival) {
	c := a.c
	if c != l.cur && c != l.next && !slices.Contains(l.racing, c) {
		return
	}
	switch {
	case a.err != nil:
		l.lost(c, a.err)
	case a.msg == nil:
		l.connected(c)
	default:
		c.heard = l.now
		l.heardOf(c, a.msg.GetState())
		l.received(c, a.msg)
	}
}

func (l *loop) received(c *conn, msg *holdfastv1.ServerMessage) {
	switch m := msg.GetMessage().(type) {
	case *holdfastv1.ServerMessage_Opened:
		answer(c, m.Opened, func(r *request, b *openBody) { l.opened(c, r, b.call, m.Opened) })
	case *holdfastv1.ServerMessage_Resumed:
		answer(c, m.Resumed, func(r *request, b *resumeBody) { l.resumed(c, r, b, m.Resumed) })
	case *holdfastv1.ServerMessage_Touched:
		answer(c, m.Touched, func(r *request, b *touchBody) { l.touched(c, r, b, m.Touched) })
	case *holdfastv1.ServerMessage_Closed:
		answer(c, m.Closed, func(_ *request, b requestBody) {
			if b, ok := b.(*closeBody); ok && l.holds(b.h) {
				l.servedFor(c, b.h.token)
				l.closed(b.h)
			}
		})
	case *holdfastv1.ServerMessage_Upgraded:
		answer(c, m.Upgraded, func(r *request, b *upgradeBody) { l.upgraded(c, r, b.h, m.Upgraded) })
	case *holdfastv1.ServerMessage_Failed:
		answer(c, m.Failed, func(r *request, _ requestBody) { l.failed(c, r, wire.FailedError(m.Failed)) })
	case *holdfastv1.ServerMessage_Gone:
		l.gone(m.Gone)
	case *holdfastv1.ServerMessage_Moved:
		l.movedAll(c, m.Moved)
	case *holdfastv1.ServerMessage_Jeopardy:
		l.inJeopardy(c, m.Jeopardy)
	case *holdfastv1.ServerMessage_JeopardyEnded:
		c.jeopardy = false
		if l.readOnly(c) { // it has heard of a good round
			l.modeIs(c, session.ModeReadWrite)
		}
		l.tellGlobal(c, nil, func(h *held) trigger { return h.either(counted, countedUnpromised) })
		l.served(c)
	}
}

// answer finds the request that m answers and hands it on, if it is of the kind that m answers. Answers to requests
// that are not out are ignored: they can do no harm.
func answer[B any](c *conn, m interface{ GetSeq() uint64 }, then func(*request, B)) {
	r, ok := c.take(m.GetSeq())
	if !ok {
		return
	}
	if b, ok := r.body.(B); ok {
		then(r, b)
	}
}

// holds reports whether h is still held.
func (l *loop) holds(h *held) bool { return l.sessions[h.s.id] == h }

func (l *loop) opened(c *conn, r *request, call *call, m *holdfastv1.Opened) {
	g, err := wire.GrantFrom(m.GetSession(), m.GetToken(), m.GetSafeFor())
	switch {
	case err != nil:
		l.openRefused(c, r, call, err)
	case call.h != nil && call.h.s.id == g.Token.ID && (!call.settled || l.holds(call.h)):
		l.servedFor(c, g.Token) // joined already, by the answer of another connection
	case call.settled, call.h != nil: // a local open through two nodes opens two sessions (L1)
		l.discard(c, call, g.Token)
	case l.sessions[g.Token.ID] != nil:
		delete(l.opens, call)
		call.settle(nil, ErrHeld)
	case call.sends > 1 || g.SafeFor < 0:
		// The open this repeats, or the caller does, may have gone through another node or stream: where the session is
		// attached is not known, and nothing is promised (O2, S2).
		l.servedFor(c, g.Token)
		l.join(call, g.Token)
	default:
		l.servedFor(c, g.Token)
		h := &held{s: newSession(call.ctx, l, g.Token), joining: call}
		call.h = h
		l.sessions[g.Session.ID] = h
		l.attach(h, c, r, g)
	}
}

// discard closes a session that an open brought and nobody waits for, unless it is held by now, or an open that repeats
// this one finds it.
func (l *loop) discard(c *conn, of *call, t session.Token) {
	if l.sessions[t.ID] != nil {
		return
	}
	c.stray = true
	for call := range l.opens {
		if call.request == of.request && call != of {
			return
		}
	}
	c.queue = append(c.queue, &request{body: &discardBody{t}})
}

func (l *loop) resumed(c *conn, r *request, b *resumeBody, m *holdfastv1.Resumed) {
	if !l.holds(b.h) {
		c.stray = true
		return
	}
	g, err := wire.GrantFrom(m.GetSession(), m.GetToken(), m.GetSafeFor())
	if err != nil {
		l.resumeRefused(c, r, b, err)
		return
	}
	l.servedFor(c, g.Token)
	// another connection was the first to tell that it has become global since
	if now := b.h.token; g.Token.Local && !now.Local {
		g.Token, g.Session.Local, g.Session.Attachment = now, false, now.Attachment
	}
	l.attach(b.h, c, r, g)
}

// failed handles a refusal by the kind of request it refuses.
func (l *loop) failed(c *conn, r *request, err error) {
	if other, ok := errors.AsType[*session.NotLeaderError](err); ok {
		l.router.Prefer(other.Address)
	}
	switch b := r.body.(type) {
	case *openBody:
		l.openRefused(c, r, b.call, err)
	case *resumeBody:
		l.resumeRefused(c, r, b, err)
	case *closeBody:
		l.closeRefused(c, r, b.h, err)
	case *upgradeBody:
		l.upgradeRefused(c, r, b.h, err)
	case *touchBody:
		l.touchPutOff(c, err)
	}
}

func (l *loop) openRefused(c *conn, r *request, call *call, err error) {
	if call.settled {
		return
	}
	joined := call.h != nil // by the answer of another connection
	if !joined {
		call.last = err
	}
	if !joined && errors.Is(err, session.ErrOutcomeUnknown) {
		l.unknown(call)
	}
	if errors.Is(err, session.ErrLimit) {
		call.sends-- // nothing was done: it is no open that a later one repeats
	}
	switch route.Judge(err) {
	case route.Final:
		if !joined {
			delete(l.opens, call)
			call.settle(nil, err)
		}
	case route.Elsewhere:
		switch {
		case call.on != c:
			return // it goes on elsewhere
		case l.stays(c, err):
			call.on = nil
			l.stayReadOnly(err)
		case c == l.next:
			call.on = nil
			l.failedNext(err)
		case l.parks(c, err), call.opts.Local && l.readOnly(c):
			l.parkOpen(c, call)
		default:
			l.pause(c, r, err)
			l.leave(c, err)
		}
	case route.Again:
		l.pause(c, r, err)
		l.proved(c)
		l.putOff(c, err)
	}
}

func (l *loop) resumeRefused(c *conn, r *request, b *resumeBody, err error) {
	h := b.h
	if !l.holds(h) {
		return
	}
	verdict := route.Judge(err)
	if l.sentHome(c, h, err) {
		verdict = route.Elsewhere
	}
	if b.local && !h.token.Local && errors.Is(err, session.ErrExpired) {
		l.resumeGlobal(c, r, h)
		return
	}
	switch {
	case errors.Is(err, session.ErrExpired) && verdict != route.Elsewhere:
		l.served(c)
		l.expired(h, err)
		return
	case h.resuming != r: // a newer one is under way: its answer counts
		return
	case l.takeOver(c, r, h, err):
		return
	case dead(err) && verdict != route.Elsewhere, h.joining != nil && verdict == route.Final:
		l.served(c)
		l.end(h, err)
		return
	}
	if h.joining != nil {
		h.joining.last = err
		if errors.Is(err, session.ErrOutcomeUnknown) {
			l.unknown(h.joining)
		}
	}
	if verdict == route.Elsewhere {
		l.resumeElsewhere(c, r, h, err)
		return
	}
	l.pause(c, r, err)
	l.proved(c)
	l.putOff(c, err)
}

// resumeElsewhere handles a refusal by a node that cannot serve h now. One that was tried is given up or, if it is the
// best there is, stayed at.
func (l *loop) resumeElsewhere(c *conn, r *request, h *held, err error) {
	switch {
	case l.stays(c, err):
		h.resuming = nil
		l.stayReadOnly(err)
	case c == l.next:
		h.resuming = nil
		l.failedNext(err)
	case l.parks(c, err):
		l.parkResume(c, h)
	default:
		l.pause(c, r, err)
		l.leave(c, err)
	}
}

// resumeGlobal resumes a session again that had become global when c refused to know the local one (L6).
func (l *loop) resumeGlobal(c *conn, r *request, h *held) {
	if h.resuming != r {
		return
	}
	h.resuming = nil
	l.rejoin()
	if h.resuming == nil && h.on != nil && c == l.next { // served where it was, and moves on
		l.queueResume(c, h)
	}
}

func (l *loop) closeRefused(c *conn, r *request, h *held, err error) {
	if !l.holds(h) || h.on != c || r.seq <= h.since {
		return // it named a former attachment: a close follows each attachment
	}
	for _, call := range slices.Clone(h.closing) {
		call.last = err
		if errors.Is(err, session.ErrOutcomeUnknown) {
			l.unknown(call)
		}
	}
	switch {
	case errors.Is(err, session.ErrExpired):
		l.expired(h, err)
	case errors.Is(err, session.ErrMoved):
		l.moved(h, c, holder(err))
	case dead(err):
		c.stray = true // the node serves it still: a touch of all its sessions would keep it alive
		l.end(h, err)
	default:
		l.pause(c, r, err)
		if route.Judge(err) == route.Elsewhere {
			l.leave(c, err)
		}
	}
}

// gone handles the news that sessions have ended.
func (l *loop) gone(m *holdfastv1.Gone) {
	certificates := make(map[session.ID]*session.Certificate, len(m.GetCertificate()))
	for _, p := range m.GetCertificate() {
		if cert, err := wire.CertificateFrom(p); err == nil { // one out of range is as good as none
			certificates[cert.ID] = &cert
		}
	}
	for _, raw := range m.GetIds() {
		id := session.ID(raw)
		if h := l.sessions[id]; h != nil {
			l.expired(h, &session.ExpiredError{ID: id, Certificate: certificates[id]})
		}
	}
}
