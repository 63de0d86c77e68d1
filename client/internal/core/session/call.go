package session

import (
	"errors"
	"slices"

	"holdfast/client/internal/core/conn"
	"holdfast/session"
)

// Call is a caller that waits for an open, a resume, an upgrade or a close. It gets one answer.
type Call struct {
	// Handle is the caller's, returned in the [Answer].
	Handle any
	// Session is the caller's handle for the session of an open or a resume, see [Session.Handle].
	Session any
	// Want describes the session to open.
	Want Want
	// Trace is the caller's place in a trace, nil for none.
	Trace *session.Trace

	sends    int      // of an open
	h        *Session // the session to join, upgrade or close; nil while an open has brought none
	closes   bool
	upgrades bool
	answered bool
	internal bool  // no caller waits: writes need the upgrade
	last     error // the newest obstacle
	// on is the connection on which an open is queued, in flight or deferred; nil while the open waits for a
	// connection.
	on *conn.Conn
}

// Want is the session that an open asks for.
type Want struct {
	session.Spec
	// Request names the open (O2 idempotent opens).
	Request session.RequestID
	Local   bool
}

// Outcome reports whether the call has its answer, and the newest obstacle or the answer's error.
func (c *Call) Outcome() (answered bool, err error) { return c.answered, c.last }

// answer answers a caller, unless the caller has its answer.
func (s *Manager) answer(c *Call, h *Session, err error) {
	if c == nil || c.answered {
		return
	}
	c.answered = true
	if c.internal {
		c.last = err
		return
	}
	s.Effects.Answers = append(s.Effects.Answers, Answer{c, h, err})
}

// GiveUp answers a caller that stops waiting because of cause.
func (s *Manager) GiveUp(call *Call, cause error) {
	last := call.last
	switch {
	case last == nil:
		last = s.conns.Obstacle(cause)
	case s.conns.ReadOnly(s.conns.Current()) && !errors.Is(last, session.ErrReadOnly):
		last = errors.Join(last, session.ErrReadOnly)
	}
	s.giveUp(call, errors.Join(cause, last))
}

// giveUp answers a caller that stops waiting, and drops the session if no caller waits for it now.
func (s *Manager) giveUp(c *Call, err error) {
	if c.answered {
		return
	}
	delete(s.opens, c)
	c.answered = true // first: the end of the session must not answer this caller again
	switch h := c.h; {
	case h == nil:
	case c.upgrades:
		h.callers.upgrading = slices.DeleteFunc(h.callers.upgrading, func(other *Call) bool { return other == c })
	case c.closes:
		h.callers.closing = slices.DeleteFunc(h.callers.closing, func(other *Call) bool { return other == c })
		if len(h.callers.closing) == 0 {
			s.abandon(h, err)
		}
	default:
		s.abandon(h, err)
	}
	if c.internal {
		c.last = err
		return
	}
	s.Effects.Answers = append(s.Effects.Answers, Answer{Call: c, Err: err})
}

// abandon drops a session that has no waiting caller left. A node may serve the session, now or soon, so touches name
// their sessions from now on. The manager closes a session that an open has opened, unless another process has resumed
// it since: then the token names the attachment of that process (see takeOver).
func (s *Manager) abandon(h *Session, err error) {
	for _, c := range s.conns.InUse() {
		c.Touches.Named = true
	}
	joining := h.callers.joining
	opened := joining != nil && joining.Want.Timeout != 0 && h.attachment.contested == 0
	if current := s.conns.Current(); opened && current != nil {
		current.Window.Push(&discardBody{h.token})
	}
	if len(h.callers.closing) == 0 && joining == nil {
		err = session.ErrClosed
	}
	s.end(h, err)
}

// outcomeUnknown answers a caller with ErrOutcomeUnknown, if the client is configured to fail requests in flight.
func (s *Manager) outcomeUnknown(c *Call) {
	if c != nil && s.cfg.FailInFlight {
		s.giveUp(c, session.ErrOutcomeUnknown)
	}
}

// recordRefusal records why callers still wait, and answers callers with the option to fail on an unknown outcome.
func (s *Manager) recordRefusal(callers []*Call, err error) {
	for _, call := range slices.Clone(callers) {
		call.last = err
		if errors.Is(err, session.ErrOutcomeUnknown) {
			s.outcomeUnknown(call)
		}
	}
}
