package core

import (
	"errors"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

func (a *answers) opened(c *Conn, r *window.Request, call *Call, m *holdfastv1.Opened) {
	g, err := wire.GrantFrom(m.GetSession(), m.GetToken(), m.GetSafeFor())
	switch {
	case err != nil:
		a.openRefused(c, r, call, err)
	case call.h != nil && call.h.id == g.Token.ID && (!call.settled || a.holds(call.h)):
		a.servedFor(c, g.Token) // the answer of another connection came first
	case call.settled, call.h != nil: // a local open through two nodes opens two sessions (L1)
		a.discard(c, call, g.Token)
	case a.sessions[g.Token.ID] != nil:
		delete(a.opens, call)
		a.effects.settle(call, nil, ErrHeld)
	default:
		a.servedFor(c, g.Token)
		a.take(c, r, call, g)
	}
}

// take begins to hold the session that an open brought.
func (a *answers) take(c *Conn, r *window.Request, call *Call, g session.Grant) {
	switch {
	case call.settled: // the open was under way on the former connection, too, and its caller was told so
		a.discard(c, call, g.Token)
	case call.sends > 1 || g.SafeFor < 0:
		// An earlier send of this open, or of the caller's, may have gone through another node or stream. So it is
		// unknown where the session is attached, and nothing is promised (O2, S2).
		a.join(call, g.Token)
	default:
		a.attach(a.hold(call, g.Token), c, r, g)
	}
}

// discard closes a session that an open brought and nobody waits for. It leaves the session alone when the client holds
// it by now, or when an open under way with the same request id will find it.
func (a *answers) discard(c *Conn, of *Call, t session.Token) {
	if a.sessions[t.ID] != nil {
		return
	}
	c.stray = true
	for call := range a.opens {
		if call.Want.Request == of.Want.Request && call != of {
			return
		}
	}
	c.window.Push(&discardBody{t})
}

func (a *answers) openRefused(c *Conn, r *window.Request, call *Call, err error) {
	if call.settled {
		return
	}
	joined := call.h != nil // another connection brought the session
	if !joined {
		call.last = err
	}
	if !joined && errors.Is(err, session.ErrOutcomeUnknown) {
		a.unknown(call)
	}
	if errors.Is(err, session.ErrLimit) {
		call.sends-- // nothing was done, so a later send repeats nothing
	}
	switch route.Judge(err) {
	case route.Final:
		if !joined {
			delete(a.opens, call)
			a.effects.settle(call, nil, err)
		}
	case route.Elsewhere:
		switch {
		case call.on != c:
			return // the open goes on elsewhere
		case a.stays(c, err):
			call.on = nil
			a.stayReadOnly(err)
		case c == a.next:
			call.on = nil
			a.failedNext(err)
		case a.parks(c, err), call.Want.Local && a.readOnly(c):
			a.parkOpen(c, call)
		default:
			a.pause(c, r, err)
			a.leave(c, err)
		}
	case route.Again:
		a.pause(c, r, err)
		a.proved(c)
		a.putOff(c, err)
	}
}
