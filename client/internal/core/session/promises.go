package session

import (
	"fmt"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/session"
)

// recordGrant records the session that an open, a resume or an upgrade brought.
func (s *Manager) recordGrant(h *Session, g session.Grant) {
	h.owner = g.Session.Owner
	s.Effects.Granted = append(s.Effects.Granted, Granted{h, g})
}

// lapse drops the promise of h, if there is one.
func (s *Manager) lapse(h *Session) {
	if h.promise.until.IsZero() {
		return
	}
	h.promise.until = time.Time{}
	s.Effects.Lapsed = append(s.Effects.Lapsed, h)
	s.emit(h, lapsed, ErrLapsed)
}

// recordPromise records the promise that the answer to r gives h; smallest is the smallest timeout of the sessions that
// the answer is about. It reports whether there was no promise before.
func (s *Manager) recordPromise(h *Session, r *window.Request, safeFor, smallest time.Duration) (regained bool) {
	until := r.Sent.Add(safeFor)
	if safeFor < 0 || !until.After(s.conns.Now()) || r.Suspensions != s.conns.Suspensions() ||
		len(h.callers.closing) > 0 {
		return false
	}
	p := &h.promise
	regained = p.until.IsZero()
	until = route.Latest(p.until, until) // a promise never gets shorter
	s.Effects.Promised = append(s.Effects.Promised, Promised{h, h.Handle, until, regained})
	p.until = until
	if !r.Sent.Before(p.requestedAt) {
		p.requestedAt = r.Sent
		p.renewBy = renewBy(r.Sent, safeFor, smallest, p.until)
		if on := h.attachment.on; on != nil {
			next := r.Sent.Add(touchIn(safeFor, smallest))
			t := &on.Touches
			t.RenewAt = route.Earliest(t.RenewAt, route.Latest(next, t.Sent.Add(smallest/answerPart)))
		}
	}
	s.dueAt = route.Earliest(route.Earliest(s.dueAt, p.until), p.renewBy)
	return regained
}

// Missed reports a lapse that only the session's timer saw, because the promise that ended the lapse was about to be
// delivered. A reader that saw the context end waits for Regained.
func (s *Manager) Missed(h *Session) {
	if !s.Holds(h) || h.promise.until.IsZero() {
		return
	}
	until := h.promise.until
	h.promise.until = time.Time{}
	s.emit(h, lapsed, ErrLapsed)
	h.promise.until = until
	s.emit(h, regained, nil)
}

// Suspended drops all promises after a suspension of the machine, and touches the sessions at once (S5 suspended
// machines).
func (s *Manager) Suspended() {
	for _, h := range s.sessions {
		s.lapse(h)
	}
	if current := s.conns.Current(); current != nil && len(s.sessions) > 0 {
		current.Touches.At = s.conns.Now()
	}
}

// CheckPromises ends promises that have run out, and leaves a node that does not renew them. It visits the sessions
// only when a promise may be due.
func (s *Manager) CheckPromises() {
	now := s.conns.Now()
	if s.dueAt.IsZero() || now.Before(s.dueAt) {
		return
	}
	s.dueAt = time.Time{}
	for _, h := range s.sessions {
		p := &h.promise
		if !p.until.IsZero() && !now.Before(p.until) {
			s.lapse(h)
		}
		if h.attachment.on != nil && len(h.callers.closing) == 0 {
			if !now.Before(p.renewBy) {
				s.notRenewed(h)
				p.renewBy = now.Add(h.timeout / lostPart)
			}
			s.dueAt = route.Earliest(s.dueAt, p.renewBy)
		}
		s.dueAt = route.Earliest(s.dueAt, p.until)
	}
}

// notRenewed leaves the node that serves h without renewing its promise. A node that knows no leader can only renew
// local sessions. If it fails to renew even those, the client drops the connection.
func (s *Manager) notRenewed(h *Session) {
	c := h.attachment.on
	if h.token.Local && c.Leaderless() {
		s.conns.Lost(c, conn.ErrSilent)
		return
	}
	s.conns.Leave(c, conn.ErrSilent)
}

// showReadOnly informs a session that its connection is to a read-only node. Nothing changes for a local session that
// this node serves.
func (s *Manager) showReadOnly(h *Session, c *conn.Conn) {
	if h.state != StateConnectedReadOnly && (h.attachment.on != c || !h.token.Local) {
		s.emit(h, onlyReads, fmt.Errorf("%s: %w", c.Address, session.ErrReadOnly))
	}
}

// TooLate reports whether the client should ask another node instead of waiting for r: the node has put r off
// MaxDeferrals times, or names a moment that leaves less than spare of the session's promise. A wait that is shorter
// than an attempt to connect is never too long. If another node has put the client off already, spare counts as zero: a
// client that alternates between two nodes never reaches the front of a queue.
func (s *Manager) TooLate(r *window.Request, spare time.Duration) bool {
	b, resume := r.Body.(*resumeBody)
	switch {
	case !resume || !b.Wanted():
		return false
	case r.Refused >= MaxDeferrals:
		return true
	}
	if s.conns.DeferredElsewhere() {
		spare = 0
	}
	return r.Named.After(s.conns.Now().Add(s.conns.ConnectWithin())) && r.Named.Add(spare).After(b.h.promise.until)
}
