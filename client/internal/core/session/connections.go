package session

import (
	"slices"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
)

// The sessions' part of conn.Handler: this file, and SendOpens, ResumeSessions and SignOfLife.

// CandidateUp queues the first requests on a candidate: all resumes, or a probe (see probe) if the candidate may be
// read-only.
func (s *Manager) CandidateUp(c *conn.Conn) {
	c.Probe.Active = s.conns.ReadOnlySeen()
	if !c.Probe.Active {
		s.queueResumes(c)
		return
	}
	for _, h := range s.sessions {
		if h.token.Local && !s.keepsHere(h) {
			s.QueueResume(c, h)
		}
	}
	s.probe(c)
}

// Dropped releases the requests of c. They move to the next connection, unless they were sent and their callers asked
// to fail on an unknown outcome. The outcome of a resume that was sent stays unknown: a resume that takes effect later
// is recognized by its instance (see moved). If err is not nil, the sessions of c become disconnected.
func (s *Manager) Dropped(c *conn.Conn, err error) {
	for r := range c.Window.InFlight() {
		if !c.Responded() && route.Denied(err) {
			break // the node has done none of the requests
		}
		switch b := r.Body.(type) {
		case *resumeBody:
			s.outcomeUnknown(b.h.callers.joining)
		case *openBody:
			s.outcomeUnknown(b.call)
		case *closeBody:
			for _, call := range slices.Clone(b.h.callers.closing) {
				s.outcomeUnknown(call)
			}
		case *upgradeBody:
			for _, call := range slices.Clone(b.h.callers.upgrading) {
				s.outcomeUnknown(call)
			}
		}
	}
	for r := range c.Window.InFlight() {
		release(r)
	}
	for r := range c.Window.Queued() {
		release(r)
	}
	s.detach(c, err)
}

// detach records that c serves no session any more.
func (s *Manager) detach(c *conn.Conn, err error) {
	for _, h := range s.sessions {
		on := h.attachment.on
		// A session that was not resumed here yet, after the former connection was dropped, is adrift: no node serves
		// it.
		adrift := on == nil && h.state != StateConnecting && !s.conns.ReadOnly(s.conns.Current())
		if err != nil && (on == c || adrift) {
			s.emit(h, disconnected, err)
		}
		if on == c {
			h.attachment.on = nil
		}
	}
}

// Denied answers the callers that wait for a connection, because each node that has answered in a whole round denies
// the client (route.Denied). A session that the client holds continues: a token or a certificate that is replaced too
// late must not end it.
func (s *Manager) Denied(err error) {
	for call := range s.opens {
		if call.h == nil { // an open that a node has answered continues: its session lives
			s.giveUp(call, err)
		}
	}
	for _, h := range s.sessions {
		if call := h.callers.joining; call != nil && call.Want.Timeout == 0 { // a resume
			s.giveUp(call, err)
		}
	}
}

// Jeopardy informs the global sessions of c that its node knows no leader because of err, or knows a leader again if
// err is nil. Local sessions depend on no leader.
func (s *Manager) Jeopardy(c *conn.Conn, err error) {
	for _, h := range s.sessions {
		if h.attachment.on != c || h.token.Local {
			continue
		}
		t := endangered
		if err == nil {
			t = h.either(counted, countedUnpromised)
		}
		s.emit(h, t, err)
	}
}

// ReadsEnded informs the read-only sessions that the current node has stopped serving reads too.
func (s *Manager) ReadsEnded(c *conn.Conn) {
	for _, h := range s.sessions {
		if h.state != StateConnectedReadOnly {
			continue
		}
		t := disconnected
		if h.attachment.on == c {
			t = endangered
		}
		s.emit(h, t, conn.ErrJeopardy)
	}
}

// How a client stays at a read-only node, if its configuration allows that (N5 read-write nodes first). The connection
// becomes current although its node has served nothing, and the move continues as without a connection: in rounds over
// all servers, with a back-off after each. The client sends nothing that a read-only node would refuse: opens, and
// sessions without a node, wait until another node serves them or this node is read-write again. The client keeps
// touching the sessions that the node serves, because touches count for the next leader (N2 read-only refusals).

// ReadOnly informs the sessions of c that its node is read-only, and removes the queued resumes of global sessions,
// which the node would refuse one by one.
func (s *Manager) ReadOnly(c *conn.Conn) {
	for r := range c.Window.Queued() {
		if b, ok := r.Body.(*resumeBody); ok && b.h.attachment.resuming == r && !b.h.token.Local {
			b.h.attachment.resuming = nil
		}
	}
	for _, h := range s.sessions {
		if h.attachment.on == c {
			s.showReadOnly(h, c)
		}
	}
}

// waitForLeader makes every global session without a node wait for a leader. Local sessions are resumed all the same:
// the read-only node may be their node (L1 local to one node).
func (s *Manager) waitForLeader(c *conn.Conn) {
	needs := false
	for _, h := range s.sessions {
		switch {
		case h.attachment.on != nil || h.attachment.resuming != nil:
		case h.token.Local:
			s.QueueResume(c, h)
		default:
			needs = true
			s.showReadOnly(h, c)
		}
	}
	if needs {
		s.conns.SeekLeader(c)
	}
}

// resumeWaits makes a session wait for a leader after a read-only node has refused its resume.
func (s *Manager) resumeWaits(c *conn.Conn, h *Session) {
	h.attachment.resuming = nil
	if next := s.conns.Candidate(); next != nil && (h.token.Local || !next.Probe.Active) {
		s.QueueResume(next, h)
		return
	}
	s.showReadOnly(h, c)
	s.conns.SeekLeader(c)
}
