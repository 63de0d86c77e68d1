package core

import (
	"errors"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

func (a *answers) resumed(c *Conn, r *window.Request, b *resumeBody, m *holdfastv1.Resumed) {
	if !a.holds(b.h) {
		c.stray = true
		return
	}
	g, err := wire.RegainedFrom(m)
	if err != nil {
		a.resumeRefused(c, r, b, err)
		return
	}
	a.regain(c, r, b, g)
}

// regain takes the grant that a resume brought.
func (a *answers) regain(c *Conn, r *window.Request, b *resumeBody, g session.Grant) {
	if a.servedFor(c, g.Token); !a.holds(b.h) {
		c.stray = true
		return
	}
	// another connection has told already that the session has become global
	if now := b.h.token; g.Token.Local && !now.Local {
		g.Token, g.Session.Local, g.Session.Attachment = now, false, now.Attachment
	}
	a.attach(b.h, c, r, g)
}

// attach notes that c serves h, because of the open or resume r.
func (a *answers) attach(h *Session, c *Conn, r *window.Request, g session.Grant) {
	first := h.timeout == 0
	h.on, h.since, h.token = c, c.window.Seq(), g.Token
	if h.resuming == r {
		h.resuming = nil
	}
	if first {
		h.timeout = g.Session.Timeout
	}
	a.grant(h, g)
	h.renewBy = a.now.Add(h.timeout / lostPart)
	a.dueAt = route.Earliest(a.dueAt, h.renewBy)
	c.smallest = minPositive(c.smallest, h.timeout)
	c.touchAt = route.Earliest(c.touchAt, r.Sent.Add(touchIn(g.SafeFor, h.timeout)))
	back := a.promise(h, r, g.SafeFor, h.timeout)
	a.emit(h, h.either(served, servedUnpromised), nil)
	if back && !first {
		a.emit(h, regained, nil)
	}
	if a.readOnly(c) { // the resume was under way when the node became read-only
		a.toReadOnly(h, c)
		a.lookFurther(c)
	}
	if len(h.closing) > 0 {
		a.queueClose(h)
	}
	a.goOnUpgrading(h)
	a.graft(h, g)
	if h.joining != nil {
		delete(a.opens, h.joining)
		a.effects.settle(h.joining, h, nil)
		h.joining = nil
	}
}

func (a *answers) resumeRefused(c *Conn, r *window.Request, b *resumeBody, err error) {
	h := b.h
	if !a.holds(h) {
		return
	}
	verdict := route.Judge(err)
	if a.sentHome(c, h, err) {
		verdict = route.Elsewhere
	}
	if b.local && !h.token.Local && errors.Is(err, session.ErrExpired) {
		a.resumeGlobal(c, r, h)
		return
	}
	switch {
	case errors.Is(err, session.ErrExpired) && verdict != route.Elsewhere:
		a.served(c)
		a.expired(h, err)
		return
	case h.resuming != r: // the answer to the newer resume counts
		return
	case a.takeOver(c, r, h, err):
		return
	case dead(err) && verdict != route.Elsewhere, h.joining != nil && verdict == route.Final:
		a.served(c)
		a.end(h, err)
		return
	}
	if h.joining != nil {
		h.joining.last = err
		if errors.Is(err, session.ErrOutcomeUnknown) {
			a.unknown(h.joining)
		}
	}
	if verdict == route.Elsewhere {
		a.resumeElsewhere(c, r, h, err)
		return
	}
	a.pause(c, r, err)
	a.proved(c)
	a.putOff(c, err)
}

// resumeElsewhere handles a refusal by a node that cannot serve h now. The client gives up a candidate, unless it stays
// there for want of a better node.
func (a *answers) resumeElsewhere(c *Conn, r *window.Request, h *Session, err error) {
	switch {
	case a.stays(c, err):
		h.resuming = nil
		a.stayReadOnly(err)
	case c == a.next:
		h.resuming = nil
		a.failedNext(err)
	case a.parks(c, err):
		a.parkResume(c, h)
	default:
		a.pause(c, r, err)
		a.leave(c, err)
	}
}

// resumeGlobal resumes a session again that has become global. Its node refused the local session, which it does not
// know (L6).
func (a *answers) resumeGlobal(c *Conn, r *window.Request, h *Session) {
	if h.resuming != r {
		return
	}
	h.resuming = nil
	a.rejoin()
	if h.resuming == nil && h.on != nil && c == a.next { // the present node serves the session, which moves on
		a.queueResume(c, h)
	}
}

// takeOver repeats the resume of a caller that takes a session over, with the attachment that the refusal names (M1).
// It reports whether it does. The first repeat goes out at once, because an old token is the common case. Later ones
// wait, so that two processes that fight for a session come to an end. A refusal that names the attachment that was asked
// for says that the holder keeps the session for half of its timeout (M7): the resume waits for that as long as its
// caller does. A resume that no caller waits for is not repeated: another process took the session from this client.
func (a *answers) takeOver(c *Conn, r *window.Request, h *Session, err error) bool {
	now, ok := errors.AsType[*session.MovedError](err)
	if h.joining == nil || !ok || now.Instance == a.cfg.Instance {
		return false
	}
	kept := h.token.Attachment == now.Attachment && h.token.Local == now.Local
	if !kept && h.contested == MaxTakeOvers {
		return false
	}
	h.joining.last = err
	h.token.Attachment, h.token.Local = now.Attachment, now.Local
	switch {
	case kept:
		h.kept++
		c.window.PutOff(r, a.now.Add(a.cfg.Jitter.Backoff(h.kept)))
	case h.contested == 0:
		h.contested++
		c.window.Repeat(r)
	default:
		h.contested++
		c.window.PutOff(r, a.now.Add(a.cfg.Jitter.Backoff(h.contested)))
	}
	a.servedFor(c, h.token)
	return true
}

// movedAll handles the news that sessions were resumed through other connections.
func (a *answers) movedAll(c *Conn, m *holdfastv1.Moved) {
	for i, id := range m.GetIds() {
		by := uint64(0)
		if all := m.GetInstances(); i < len(all) {
			by = all[i]
		}
		if h := a.sessions[session.ID(id)]; h != nil {
			a.moved(h, c, by)
		}
	}
}

// moved handles the news that c does not serve h any more, because the instance by has resumed it.
//
//   - This client's instance: one of its own resumes took effect late. It resumes again.
//   - Another instance: that process has taken the session over. The session ends here.
//   - Instance 0: nobody has resumed it. The client does, once; when the node says so again and has taken no touch
//     meanwhile, the client believes it.
func (a *answers) moved(h *Session, c *Conn, by uint64) {
	if h.on != c {
		return
	}
	h.on = nil
	own := by == a.cfg.Instance
	if !own && (by != 0 || h.doubted) {
		a.end(h, session.ErrMoved)
		return
	}
	h.doubted = !own
	if h.resuming == nil {
		a.emit(h, disconnected, errOvertaken)
	}
	a.rejoin()
}
