package conn

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Receive handles the news of a node about itself, and reports whether the message was any.
func (m *Manager) Receive(c *Conn, msg *holdfastv1.ServerMessage) bool {
	switch news := msg.GetMessage().(type) {
	case *holdfastv1.ServerMessage_Jeopardy:
		m.jeopardy(c, news.Jeopardy)
	case *holdfastv1.ServerMessage_JeopardyEnded:
		m.jeopardyEnded(c)
	case *holdfastv1.ServerMessage_Draining:
		m.draining(c, news.Draining)
	case *holdfastv1.ServerMessage_DrainingEnded:
		m.drainingEnded(c)
	default:
		return false
	}
	return true
}

// ReceivedEarly records that a message of the node waits in the present turn, so the node is not silent.
func (m *Manager) ReceivedEarly(c *Conn) { c.Window.Received(m.now) }

// Received records a message of the node, and the state in the message.
func (m *Manager) Received(c *Conn, p *holdfastv1.NodeState) {
	c.responded = true
	c.Window.Received(m.now)
	state := wire.StateFrom(p)
	if c == m.current {
		m.recordCluster(&state)
	}
	if known := &m.Effects.Known; !m.isAnother(state.Cluster) {
		known.Seen = max(known.Seen, state.Index)
	}
	c.batch = int(min(p.GetMaxBatch(), maxResumes))
	mode := state.Mode
	state.Mode = c.state.Mode
	c.state = state
	if mode != 0 {
		m.setMode(c, mode)
	}
}

// setMode records what the node of c can do, and acts when the current node enters or leaves the read-only mode.
func (m *Manager) setMode(c *Conn, mode session.Mode) {
	was := m.ReadOnly(c)
	c.state.Mode = mode
	if c != m.current {
		return // the answers decide about a candidate
	}
	if mode == session.ModeNoLeader {
		m.handler.ReadsEnded(c)
	}
	if m.ReadOnly(c) == was {
		return
	}
	switch {
	case !was:
		m.handler.ReadOnly(c)
		m.handler.ResumeSessions()
		m.SeekLeader(c)
	case mode == session.ModeReadWrite:
		m.readWriteAgain(c)
	default: // neither reads nor writes
		m.handler.ResumeSessions()
		m.handler.SendOpens()
	}
}

// jeopardy handles the notice that a node knows no leader, so that touches may not count (S4 jeopardy).
func (m *Manager) jeopardy(c *Conn, news *holdfastv1.Jeopardy) {
	if !m.cfg.OnlyServers {
		m.router.Learn(news.GetTry())
	}
	again := c.jeopardy
	c.jeopardy = true
	if c == m.candidate {
		// After a fail-over every node reports jeopardy until it learns of the first good round of the new leader,
		// although it serves resumes. So the candidate gets a moment to answer. If the client tried one node after the
		// other instead, each attempt would move all sessions.
		c.deadline = route.Earliest(c.deadline, m.now.Add(m.Bound(jeopardyPart, m.cfg.ConnectTimeout)))
		m.failure.Met(fmt.Errorf("%s: %w", c.Address, ErrJeopardy))
		return
	}
	if m.ReadOnly(c) {
		return // the sessions know about the read-only node, and the client searches for another node
	}
	if !again { // a node repeats jeopardy when it becomes read-only
		m.handler.Jeopardy(c, ErrJeopardy)
	}
	if held := m.needs.Held(); held.OnlyLocal && held.Opens == 0 {
		return // local sessions depend on no leader, and would end elsewhere
	}
	m.Leave(c, ErrJeopardy)
}

func (m *Manager) jeopardyEnded(c *Conn) {
	c.jeopardy = false
	if m.ReadOnly(c) { // the node has learnt of a good round
		m.setMode(c, session.ModeReadWrite)
	}
	m.handler.Jeopardy(c, nil)
	m.Served(c)
}

// ReadOnly reports whether the node of c is read-only and the client may stay there.
func (m *Manager) ReadOnly(c *Conn) bool {
	return m.cfg.ReadOnly && c != nil && c.state.Mode == session.ModeReadOnly
}

// AcceptsWrites reports whether the client is at a node that is not known to be read-only.
func (m *Manager) AcceptsWrites() bool { return m.current != nil && !m.ReadOnly(m.current) }

// ReadOnlySeen reports whether a candidate may be read-only: the client is at a read-only node, or a node was read-only
// since any node has served.
func (m *Manager) ReadOnlySeen() bool { return m.ReadOnly(m.current) || m.router.Refused }

// StaysReadOnly reports whether the client stays at c, whose node refused with err because it is read-only. The client
// leaves no current connection for a read-only node. It does not stay at a node that lags, or that belongs to another
// cluster than the sessions: such a node has no state that the client may read.
func (m *Manager) StaysReadOnly(c *Conn, err error) bool {
	return c == m.candidate && m.current == nil && m.ReadOnly(c) && errors.Is(err, session.ErrReadOnly) &&
		c.state.Index >= m.Effects.Known.Seen && !m.isAnother(c.state.Cluster)
}

// StayReadOnly makes a read-only candidate the current connection for want of a better one. The move continues.
func (m *Manager) StayReadOnly(err error) {
	c := m.candidate
	m.current, m.candidate, c.Probe = c, nil, Probe{}
	m.recordCluster(&c.state)
	m.Effects.Adopted = c.Server
	m.askMembersSoon()
	c.deadline, c.failing = time.Time{}, err
	m.handler.ReadOnly(c)
	m.Log(hclog.Info, "connected to a read-only node", "address", c.Address)
	m.handler.ResumeSessions()
	m.attemptFailed(fmt.Errorf("%s: %w", c.Address, err))
}

// WaitsForLeader reports whether a request that the node of c refused with err waits until there is a leader.
func (m *Manager) WaitsForLeader(c *Conn, err error) bool {
	return c == m.current && m.ReadOnly(c) && errors.Is(err, session.ErrReadOnly)
}

// checkIdleCandidate decides about a candidate to which no session moves. The candidate becomes current at once, unless
// the current node is read-only. Then an open shows what the candidate can do, or without an open a sign of life, and
// only a better node replaces the current node. Without this rule the client would carry its watches between read-only
// nodes. It reports false while the decision is open.
func (m *Manager) checkIdleCandidate(c *Conn) (decided bool) {
	switch {
	case !m.ReadOnly(m.current):
		m.adopt()
		return true
	case m.needs.Held().Opens > 0:
		return false
	case !c.responded:
		m.ProbeState(c)
		return false
	}
	switch c.state.Mode {
	case session.ModeReadOnly:
		m.FailCandidate(fmt.Errorf("%s: %w", c.Address, session.ErrReadOnly))
		return true
	case session.ModeNoLeader:
		m.FailCandidate(fmt.Errorf("%s: %w", c.Address, session.ErrNoLeader))
		return true
	case session.ModeReadWrite:
	}
	m.adopt()
	return true
}

// readWriteAgain uses a current node that knows a leader again. Its sessions continue when it reports the end of
// jeopardy.
func (m *Manager) readWriteAgain(c *Conn) {
	if !m.needs.Serves(c) && !c.dismissed() {
		c.failing, m.router.Fresh = nil, true
		m.endMove() // no node serves anything, so abandoning the attempts costs nothing
	}
	m.handler.ResumeSessions()
	m.handler.SendOpens()
}
