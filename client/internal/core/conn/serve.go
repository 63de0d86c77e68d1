package conn

import (
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/session"
)

// Connected makes the first connection that comes up the candidate, and closes the other attempts. The handler then
// queues the resumes of all sessions, or a probe, and the answers decide whether the candidate becomes current. The
// client never deliberately resumes a session on two connections at once: each resume is an entry of the log, and moves
// the session away from the other connection.
func (m *Manager) Connected(c *Conn) {
	i := slices.Index(m.dialing, c)
	if i < 0 {
		return
	}
	c.up = true
	m.router.Reached(c.Server)
	m.dialing = slices.Delete(m.dialing, i, i+1)
	m.dropDialing()
	m.candidate = c
	if c.deadline = c.dialed.Add(m.Bound(TryPart, AnswerTimeout)); m.router.Rounds > 0 {
		c.deadline = m.now.Add(m.Bound(latePart, AnswerTimeout))
	}
	m.handler.CandidateUp(c)
}

// Served records that the node of c did something for the client that needs a leader. A candidate becomes current. A
// move away from the current connection ends, unless its fault lasts.
func (m *Manager) Served(c *Conn) {
	m.router.Fresh, m.router.Refused = true, false
	c.Window.Served()
	m.failure = route.Failure{}
	if c == m.candidate {
		m.adopt()
		return
	}
	if c.failing == nil || c.jeopardy || m.ReadOnly(c) || c.dismissed() {
		return
	}
	c.failing = nil
	if m.candidate == nil || m.candidate.Window.Defers() {
		m.stay() // the current node has recovered before another node has served
	}
}

// adopt makes the candidate current, and drops the former connection.
func (m *Manager) adopt() {
	former := m.current
	m.current, m.candidate, m.adoptedAt = m.candidate, nil, m.now
	m.current.deadline, m.current.Probe = time.Time{}, Probe{}
	m.recordCluster(&m.current.state)
	m.router.Moving = false
	m.router.Last, m.router.NotBefore = m.current.Server, nil
	m.router.Avoid(m.current.Server, time.Time{})
	m.Effects.Adopted = m.current.Server
	m.askMembersSoon()
	m.Log(hclog.Info, "connected", "address", m.current.Address)
	if former != nil {
		m.drop(former, nil)
	}
	m.handler.ResumeSessions()
	m.handler.SendOpens()
}

// Lost handles the end of a connection.
func (m *Manager) Lost(c *Conn, err error) {
	switch {
	case c == m.candidate:
		m.FailCandidate(atNode(c, err))
		return
	case c != m.current:
		m.dialFailed(c, atNode(c, err))
		return
	}
	m.Log(hclog.Info, "connection lost", "address", c.Address, "error", err)
	m.failure.Met(atNode(c, err))
	m.drop(c, err)
	m.handler.ResumeSessions()
}

// atNode returns what the end of a connection reveals about its node: it denies the client, or was not reached.
func atNode(c *Conn, err error) error {
	if route.Denied(err) {
		return err
	}
	return route.Unreachable(c.Address, err)
}

// FailCandidate drops the candidate. The client stays at the current connection if that has no fault, and continues the
// round otherwise.
func (m *Manager) FailCandidate(err error) {
	m.Log(hclog.Debug, "node does not serve", "address", m.candidate.Address, "error", err)
	m.drop(m.candidate, err)
	m.router.Refused = m.router.Refused || errors.Is(err, session.ErrReadOnly)
	m.lag.Note(err)
	if m.recovered() {
		m.failure.Met(err)
		m.stay()
	} else {
		m.attemptFailed(err)
	}
	m.handler.ResumeSessions()
	if m.AcceptsWrites() {
		m.handler.SendOpens() // an open may have been in flight to the candidate
	}
}

// checkConns drops connections that are too slow, and starts a move when there is no current connection.
func (m *Manager) checkConns() {
	for _, c := range slices.Clone(m.dialing) {
		if !m.now.Before(c.deadline) {
			m.dialFailed(c, route.Unreachable(c.Address, route.ErrSlow))
		}
	}
	if c := m.candidate; c != nil {
		switch {
		case c.up && m.needs.Held().Sessions == 0 && m.checkIdleCandidate(c):
		case !m.now.Before(c.deadline):
			m.FailCandidate(route.Unreachable(c.Address, route.ErrSlow))
		}
	}
	if c := m.current; c == nil {
		m.beginMove()
	} else {
		m.checkSilence(c)
	}
}

// checkSilence asks a silent node for a sign of life, and leaves the node when the sign does not come.
func (m *Manager) checkSilence(c *Conn) {
	if at := c.probeAt(); !at.IsZero() && !m.now.Before(at) {
		m.Probe(c)
	}
	if at := c.stallsAt(); !at.IsZero() && !m.now.Before(at) {
		m.Leave(c, ErrStalled)
	}
}

// Deferred handles a candidate that has deferred a request. While another request may still be served, nothing happens.
// When the candidate has deferred all requests, the client stays if every session can wait. Otherwise it tries another
// node at once, and this node again when its first request is due for a retry.
func (m *Manager) Deferred(c *Conn, err error) {
	if c != m.candidate || route.Hint(err) == 0 || !c.Window.Defers() {
		return
	}
	first, spare := c.Window.DueAt(), m.Bound(TryPart, AnswerTimeout)
	if c.jeopardy && !first.Before(c.deadline) ||
		slices.ContainsFunc(c.Window.Later(), func(r *window.Request) bool { return m.needs.TooLate(r, spare) }) {
		m.router.Postpone(m.now, c.Target, first)
		m.FailCandidate(err)
		return
	}
	if !c.jeopardy { // a node without a leader gets no more time
		c.deadline = first.Add(spare)
	}
}

// DeferredElsewhere reports whether any node has named a time at which it accepts the client.
func (m *Manager) DeferredElsewhere() bool { return !m.router.Soonest(m.now).IsZero() }
