package session

import (
	"errors"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Open opens a session for a caller.
func (s *Manager) Open(call *Call) {
	s.opens[call] = struct{}{}
	s.queueOpen(call)
}

// SendOpens queues each open that is on no connection.
func (s *Manager) SendOpens() {
	for call := range s.opens {
		if call.h == nil && call.on == nil {
			s.queueOpen(call)
		}
	}
}

// queueOpen queues an open on the current connection. An open that needs a leader waits while the current node is
// read-only, and may be the probe of the candidate.
func (s *Manager) queueOpen(call *Call) {
	switch c := s.conns.Current(); {
	case c == nil:
	case call.Want.Local || !s.conns.ReadOnly(c):
		s.queueOpenOn(c, call)
	default:
		s.openWaits(c, call)
		if next := s.conns.Candidate(); next != nil && next.Probe.Active {
			s.probe(next)
		}
	}
}

func (s *Manager) queueOpenOn(c *conn.Conn, call *Call) *window.Request {
	call.on = c
	return c.Window.Push(&openBody{s, call, c})
}

// openWaits has an open wait for a node that serves it: for a leader, or for a node that has ids for a local open (L2
// local ids).
func (s *Manager) openWaits(c *conn.Conn, call *Call) {
	if call.on = nil; !call.Want.Local {
		call.last = session.ErrReadOnly
	}
	s.conns.SeekLeader(c)
}

func (s *Manager) opened(c *conn.Conn, r *window.Request, call *Call, m *holdfastv1.Opened) {
	g, err := wire.GrantFrom(m.GetSession(), m.GetToken(), m.GetSafeFor())
	switch {
	case err != nil:
		s.openRefused(c, r, call, err)
	case call.h != nil && call.h.id == g.Token.ID && (!call.answered || s.Holds(call.h)):
		s.servedFor(c, g.Token) // the answer of another connection came first
	case call.answered, call.h != nil: // a local open through two nodes opens two sessions (L1 local to one node)
		s.discard(c, call, g.Token)
	case s.sessions[g.Token.ID] != nil:
		delete(s.opens, call)
		s.answer(call, nil, ErrHeld)
	default:
		s.servedFor(c, g.Token)
		s.accept(c, r, call, g)
	}
}

// accept begins to hold the session that an open brought.
func (s *Manager) accept(c *conn.Conn, r *window.Request, call *Call, g session.Grant) {
	switch {
	case call.answered: // the open was in flight on the former connection too, and its caller got an unknown outcome
		s.discard(c, call, g.Token)
	case call.sends > 1 || g.SafeFor < 0:
		// An earlier send of this open, or of the caller's, may have used another node or stream. So the session's
		// attachment is unknown, and no promise holds (O2 idempotent opens; S2).
		s.join(call, g.Token)
	default:
		s.attach(s.hold(call, g.Token), c, r, g)
	}
}

// discard closes a session that was opened for no waiting caller. It leaves the session alone if the client holds it by
// now, or if a pending open with the same request id will find it.
func (s *Manager) discard(c *conn.Conn, of *Call, t session.Token) {
	if s.sessions[t.ID] != nil {
		return
	}
	c.Touches.Named = true
	for call := range s.opens {
		if call.Want.Request == of.Want.Request && call != of {
			return
		}
	}
	c.Window.Push(&discardBody{t})
}

func (s *Manager) openRefused(c *conn.Conn, r *window.Request, call *Call, err error) {
	if call.answered {
		return
	}
	joined := call.h != nil // another connection brought the session
	if !joined {
		call.last = err
	}
	if !joined && errors.Is(err, session.ErrOutcomeUnknown) {
		s.outcomeUnknown(call)
	}
	if errors.Is(err, session.ErrLimit) {
		call.sends-- // the request had no effect, so a later send repeats nothing
	}
	switch route.Classify(err) {
	case route.Final:
		if !joined {
			delete(s.opens, call)
			s.answer(call, nil, err)
		}
	case route.Elsewhere:
		s.openElsewhere(c, r, call, err)
	case route.Again:
		s.conns.Retry(c, r, err)
		s.probeDone(c)
		s.conns.Deferred(c, err)
	}
}

// openElsewhere handles the refusal of an open by a node that cannot serve it now.
func (s *Manager) openElsewhere(c *conn.Conn, r *window.Request, call *Call, err error) {
	switch {
	case call.on != c: // the open has moved to another connection
	case s.conns.StaysReadOnly(c, err):
		call.on = nil
		s.conns.StayReadOnly(err)
	case c == s.conns.Candidate():
		call.on = nil
		s.conns.FailCandidate(err)
	case s.conns.WaitsForLeader(c, err), call.Want.Local && s.conns.ReadOnly(c):
		s.openWaits(c, call)
	default:
		s.conns.Retry(c, r, err)
		s.conns.Leave(c, err)
	}
}
