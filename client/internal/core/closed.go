package core

import (
	"errors"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

func (a *answers) closeRefused(c *Conn, r *window.Request, h *Session, err error) {
	if !a.holds(h) || h.on != c || r.Seq <= h.since {
		return // the request named a former attachment; another close follows each attachment
	}
	a.refused(h.closing, err)
	switch {
	case errors.Is(err, session.ErrExpired):
		a.expired(h, err)
	case errors.Is(err, session.ErrMoved):
		a.moved(h, c, holder(err))
	case dead(err):
		c.stray = true // the node still serves the session: a touch without ids would keep it alive
		a.end(h, err)
	default:
		a.pause(c, r, err)
		if route.Judge(err) == route.Elsewhere {
			a.leave(c, err)
		}
	}
}

// upgraded takes the global session that h has become, even when no caller waits any more. This is no move: c serves
// the session as before.
func (a *answers) upgraded(c *Conn, r *window.Request, h *Session, m *holdfastv1.Upgraded) {
	if !a.holds(h) || h.on != c || r.Seq <= h.since {
		return // the request named a former attachment; another upgrade follows each attachment
	}
	g, err := wire.GrantFrom(m.GetSession(), m.GetToken(), m.GetSafeFor())
	if err != nil {
		a.settleUpgrades(h, err)
		return
	}
	h.token, h.upgradeSent = g.Token, false
	a.grant(h, g)
	if a.served(c); !a.holds(h) {
		return
	}
	if a.promise(h, r, g.SafeFor, h.timeout) {
		a.emit(h, regained, nil)
	}
	a.settleUpgrades(h, nil)
}

// upgradeRefused handles the refusal of an upgrade. Only the node of a local session can upgrade it, so the client
// stays there.
func (a *answers) upgradeRefused(c *Conn, r *window.Request, h *Session, err error) {
	if !a.holds(h) || h.on != c || r.Seq <= h.since {
		return
	}
	a.refused(h.upgrading, err)
	switch {
	case errors.Is(err, session.ErrExpired):
		a.expired(h, err)
	case errors.Is(err, session.ErrMoved):
		a.moved(h, c, holder(err))
	case errors.Is(err, session.ErrBadCredential):
		a.end(h, err)
	case route.Judge(err) == route.Final:
		h.upgradeSent = false
		a.settleUpgrades(h, err)
	default:
		a.pause(c, r, err)
	}
}

// goOnUpgrading asks for the upgrade again where a node serves the session anew. A session that is global by now needs
// none: a former request took effect.
func (a *answers) goOnUpgrading(h *Session) {
	switch {
	case !h.token.Local:
		h.upgradeSent = false
		a.settleUpgrades(h, nil)
	case len(h.upgrading) > 0:
		a.queueUpgrade(h)
	}
}

func (a *answers) settleUpgrades(h *Session, err error) {
	for _, call := range h.upgrading {
		a.effects.settle(call, h, err)
	}
	h.upgrading = nil
	a.busy(h)
}
