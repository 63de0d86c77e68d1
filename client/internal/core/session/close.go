package session

import (
	"errors"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Close closes a session for a caller. The application knows already that no promise holds.
func (s *Manager) Close(call *Call, h *Session) {
	if !s.Holds(h) {
		err := h.err
		if errors.Is(err, session.ErrClosed) {
			err = nil
		}
		s.answer(call, nil, err)
		return
	}
	call.h, call.closes = h, true
	h.callers.closing = append(h.callers.closing, call)
	h.promise.until = time.Time{}
	if len(h.callers.closing) == 1 && h.attachment.on != nil {
		s.queueClose(h)
	}
}

func (s *Manager) queueClose(h *Session) { h.attachment.on.Window.Push(&closeBody{h}) }

func (s *Manager) closeRefused(c *conn.Conn, r *window.Request, h *Session, err error) {
	if !s.Holds(h) || !h.ServedBy(c, r.Seq) {
		return // the request named a former attachment; each new attachment gets its own close
	}
	s.recordRefusal(h.callers.closing, err)
	switch {
	case s.LostAt(c, h, err):
	case final(err):
		c.Touches.Named = true // the node still serves the session: a touch without ids would keep it alive
		s.end(h, err)
	default:
		s.conns.Retry(c, r, err)
		if route.Classify(err) == route.Elsewhere {
			s.conns.Leave(c, err)
		}
	}
}

// Upgrade makes a session global for a caller.
func (s *Manager) Upgrade(call *Call, h *Session) {
	switch {
	case !s.Holds(h):
		s.answer(call, nil, h.err)
		return
	case !h.token.Local:
		s.answer(call, h, nil)
		return
	}
	if h.callers.upgradeSent {
		call.last = session.ErrOutcomeUnknown
	}
	s.joinUpgrade(call, h)
}

// UpgradeForWrites makes a session global because its writes need a global session. The call has its [Call.Outcome],
// and no answer.
func (s *Manager) UpgradeForWrites(h *Session) *Call {
	call := &Call{internal: true}
	s.joinUpgrade(call, h)
	return call
}

// joinUpgrade queues an upgrade for the first caller. Later callers wait for the same upgrade.
func (s *Manager) joinUpgrade(call *Call, h *Session) {
	call.h, call.upgrades = h, true
	h.callers.upgrading = append(h.callers.upgrading, call)
	if len(h.callers.upgrading) == 1 && h.attachment.on != nil {
		s.queueUpgrade(h)
	}
}

func (s *Manager) queueUpgrade(h *Session) { h.attachment.on.Window.Push(&upgradeBody{h}) }

// upgraded records the global session that h has become, even if no caller waits any more. This is no move: c serves
// the session as before.
func (s *Manager) upgraded(c *conn.Conn, r *window.Request, h *Session, m *holdfastv1.Upgraded) {
	if !s.Holds(h) || !h.ServedBy(c, r.Seq) {
		return // the request named a former attachment; each new attachment gets its own upgrade
	}
	g, err := wire.GrantFrom(m.GetSession(), m.GetToken(), m.GetSafeFor())
	if err != nil {
		s.answerUpgrades(h, err)
		return
	}
	h.token, h.callers.upgradeSent = g.Token, false
	s.recordGrant(h, g)
	if s.conns.Served(c); !s.Holds(h) {
		return
	}
	if s.recordPromise(h, r, g.SafeFor, h.timeout) {
		s.emit(h, regained, nil)
	}
	s.answerUpgrades(h, nil)
}

// upgradeRefused handles the refusal of an upgrade. Only the node of a local session can upgrade it, so the client
// stays with this node.
func (s *Manager) upgradeRefused(c *conn.Conn, r *window.Request, h *Session, err error) {
	if !s.Holds(h) || !h.ServedBy(c, r.Seq) {
		return
	}
	s.recordRefusal(h.callers.upgrading, err)
	switch {
	case s.LostAt(c, h, err):
	case errors.Is(err, session.ErrBadCredential):
		s.end(h, err)
	case route.Classify(err) == route.Final:
		h.callers.upgradeSent = false
		s.answerUpgrades(h, err)
	default:
		s.conns.Retry(c, r, err)
	}
}

// continueUpgrade repeats a pending upgrade at the node that has started to serve the session. For a session that is
// global by now, a former request took effect.
func (s *Manager) continueUpgrade(h *Session) {
	switch {
	case !h.token.Local:
		h.callers.upgradeSent = false
		s.answerUpgrades(h, nil)
	case len(h.callers.upgrading) > 0:
		s.queueUpgrade(h)
	}
}

func (s *Manager) answerUpgrades(h *Session, err error) {
	for _, call := range h.callers.upgrading {
		s.answer(call, h, err)
	}
	h.callers.upgrading = nil
	s.tree.Upgraded(h)
}
