package core

import (
	"errors"
	"slices"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// answers handles what nodes answer to requests, and their news of sessions.
type answers struct{ watching }

// answer hands the answer m to then, with the request that it answers. It ignores an answer to a request that is not in
// flight, or of another kind: such an answer can do no harm.
func answer[B any](c *Conn, m interface{ GetSeq() uint64 }, then func(*window.Request, B)) {
	r, ok := c.window.Take(m.GetSeq())
	if !ok {
		return
	}
	if b, ok := r.Body.(B); ok {
		then(r, b)
	}
}

func (a *answers) received(c *Conn, msg *holdfastv1.ServerMessage) {
	switch m := msg.GetMessage().(type) {
	case *holdfastv1.ServerMessage_Opened:
		answer(c, m.Opened, func(r *window.Request, b *openBody) { a.opened(c, r, b.call, m.Opened) })
	case *holdfastv1.ServerMessage_Resumed:
		answer(c, m.Resumed, func(r *window.Request, b *resumeBody) { a.resumed(c, r, b, m.Resumed) })
	case *holdfastv1.ServerMessage_ResumedSessions:
		answer(c, m.ResumedSessions, func(r *window.Request, _ *resumesBody) { a.resumedAll(c, r, m.ResumedSessions) })
	case *holdfastv1.ServerMessage_Touched:
		if r, ok := c.window.TakeAnswered(m.Touched.GetSeq()); ok {
			a.confirmed(c, r, m.Touched)
			return
		}
		answer(c, m.Touched, func(r *window.Request, b *touchBody) { a.touched(c, r, b, m.Touched) })
	case *holdfastv1.ServerMessage_Closed:
		answer(c, m.Closed, func(_ *window.Request, b body) {
			if b, ok := b.(*closeBody); ok && a.holds(b.h) {
				a.servedFor(c, b.h.token)
				a.closed(b.h)
			}
		})
	case *holdfastv1.ServerMessage_Upgraded:
		answer(c, m.Upgraded, func(r *window.Request, b *upgradeBody) { a.upgraded(c, r, b.h, m.Upgraded) })
	case *holdfastv1.ServerMessage_Failed:
		answer(c, m.Failed, func(r *window.Request, _ body) { a.failed(c, r, wire.FailedError(m.Failed)) })
	case *holdfastv1.ServerMessage_Gone:
		a.gone(m.Gone)
	case *holdfastv1.ServerMessage_Moved:
		a.movedAll(c, m.Moved)
	case *holdfastv1.ServerMessage_Jeopardy:
		a.inJeopardy(c, m.Jeopardy)
	case *holdfastv1.ServerMessage_JeopardyEnded:
		c.jeopardy = false
		if a.readOnly(c) { // the node has heard of a good round
			a.modeIs(c, session.ModeReadWrite)
		}
		a.tellGlobal(c, nil, func(h *Session) trigger { return h.either(counted, countedUnpromised) })
		a.served(c)
	case *holdfastv1.ServerMessage_Draining:
		a.inDraining(c, m.Draining)
	case *holdfastv1.ServerMessage_DrainingEnded:
		a.drainingEnded(c)
	default:
		a.receivedOfTree(c, msg)
	}
}

// receivedOfTree is received for answers about the tree, and what watches hear.
func (a *answers) receivedOfTree(c *Conn, msg *holdfastv1.ServerMessage) {
	switch m := msg.GetMessage().(type) {
	case *holdfastv1.ServerMessage_Written:
		answer(c, m.Written, func(_ *window.Request, b *writeBody) { a.written(c, b, m.Written) })
	case *holdfastv1.ServerMessage_Read:
		answer(c, m.Read, func(_ *window.Request, b *readBody) { a.read(c, b, m.Read) })
	case *holdfastv1.ServerMessage_WatchesAdded:
		answer(c, m.WatchesAdded, func(_ *window.Request, b *watchBody) { a.watchesAdded(c, b, m.WatchesAdded) })
	case *holdfastv1.ServerMessage_WatchesRemoved:
		answer(c, m.WatchesRemoved, func(*window.Request, *unwatchBody) {})
	case *holdfastv1.ServerMessage_Events:
		a.events(c, m.Events)
	case *holdfastv1.ServerMessage_Lost:
		a.eventsLost(c, tree.Stamp(m.Lost.GetStamp()))
	case *holdfastv1.ServerMessage_Told:
		a.toldUpTo(c, tree.Stamp(m.Told.GetStamp()))
	}
}

// failed handles a refusal, by the kind of the refused request.
func (a *answers) failed(c *Conn, r *window.Request, err error) {
	if other, ok := errors.AsType[*session.NotLeaderError](err); ok &&
		(!a.cfg.OnlyServers || slices.Contains(a.router.Servers, other.Address)) {
		a.router.Prefer(other.Address)
	}
	a.refusedByDrained(c, err)
	switch b := r.Body.(type) {
	case *openBody:
		a.openRefused(c, r, b.call, err)
	case *resumeBody:
		a.resumeRefused(c, r, b, err)
	case *resumesBody:
		a.resumesRefused(c, r, err)
	case *closeBody:
		a.closeRefused(c, r, b.h, err)
	case *upgradeBody:
		a.upgradeRefused(c, r, b.h, err)
	case *writeBody:
		a.writeRefused(c, r, b, err)
	case *readBody:
		a.readRefused(c, r, b, err)
	case *watchBody:
		a.watchRefused(c, r, b, err)
	case *touchBody:
		if !b.sign { // a refusal is a sign of life, and the next touch is due when it was
			a.touchPutOff(c, err)
		}
	}
}

// gone handles the news that sessions have ended.
func (a *answers) gone(m *holdfastv1.Gone) {
	certificates := make(map[session.ID]*session.Certificate, len(m.GetCertificate()))
	for _, p := range m.GetCertificate() {
		if cert, err := wire.CertificateFrom(p); err == nil { // a certificate that is out of range counts as none
			certificates[cert.ID] = &cert
		}
	}
	for _, raw := range m.GetIds() {
		id := session.ID(raw)
		if h := a.sessions[id]; h != nil {
			a.expired(h, &session.ExpiredError{ID: id, Certificate: certificates[id]})
		}
	}
}
