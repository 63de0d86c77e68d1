package conn

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// Leave begins a move because of a fault of c. The sessions stay on c, and are touched there, until another node has
// served a request.
func (m *Manager) Leave(c *Conn, why error) {
	if errors.Is(why, ErrStalled) { // other reasons come from the node itself
		m.failure.Met(route.Unreachable(c.Address, why))
	} else {
		m.failure.Met(fmt.Errorf("%s: %w", c.Address, why))
	}
	if c != m.current || c.failing != nil {
		return
	}
	c.failing = why
	m.Log(hclog.Info, "looking for another node", "address", c.Address, "error", why)
	m.beginMove()
}

func (m *Manager) beginMove() {
	r := &m.router
	if r.Moving {
		return
	}
	r.Moving = true
	if !r.Fresh {
		m.continueRound() // the node that the client leaves has served nothing
		return
	}
	r.Fresh, r.Begun, r.Resolving, r.Rounds, r.At = false, false, 0, 0, m.now.Add(m.restBetweenMoves())
}

// restBetweenMoves returns how long the client waits before it searches for a new node: zero, unless the client has
// left several nodes in a row within a second of connecting. Nodes may then be closing its connections because of what
// the client sends, and without a pause it would send the same again and again.
func (m *Manager) restBetweenMoves() time.Duration {
	if m.brief++; m.now.Sub(m.adoptedAt) >= briefly {
		m.brief = 0
	}
	if m.brief <= maxBrief {
		return 0
	}
	return m.cfg.Jitter.Within(m.Bound(hedgePart, m.cfg.HedgeDelay))
}

// endMove gives up all attempts, and stays at the current connection.
func (m *Manager) endMove() {
	m.router.Moving = false
	m.dropDialing()
	if m.candidate != nil {
		m.drop(m.candidate, nil)
	}
}

// recovered reports whether the current connection has no fault any more.
func (m *Manager) recovered() bool {
	return m.current != nil && m.current.failing == nil && !m.ReadOnly(m.current)
}

// stay ends a move at the connection where it started. The next Advance queues there what was queued only at the
// candidate.
func (m *Manager) stay() {
	m.endMove()
	m.stayed = true
}

// dropDialing cancels the pending attempts to connect. The round repeats them if it continues.
func (m *Manager) dropDialing() {
	for _, c := range m.dialing {
		m.do(c, HangUp)
		m.router.PutBack(c.Target)
	}
	m.dialing = nil
}

// drop closes a connection and releases its requests, which move to the next connection.
func (m *Manager) drop(c *Conn, err error) {
	m.do(c, HangUp)
	if c == m.current {
		m.current = nil
	} else {
		m.candidate = nil
	}
	m.handler.Dropped(c, err)
}

// SeekLeader begins a move to a read-write node, unless the read-only node of c has all that is needed.
func (m *Manager) SeekLeader(c *Conn) {
	if c.failing != nil || !m.needs.NeedsLeader(c) {
		return
	}
	m.Leave(c, session.ErrReadOnly)
	// a pause, so that the client does not come again and again to a node that refuses writes
	if r := &m.router; !r.Begun {
		r.At = route.Latest(r.At, m.now.Add(m.cfg.Jitter.Backoff(1)))
	}
}

// stopSearchAtReadOnly ends the search for a read-write node when the current read-only node has all that is needed.
func (m *Manager) stopSearchAtReadOnly() {
	c := m.current
	if m.ReadOnly(c) && errors.Is(c.failing, session.ErrReadOnly) && !m.needs.NeedsLeader(c) {
		c.failing = nil
		m.endMove()
	}
}

// Home returns when a round comes to the node that served last, which alone knows the local sessions. While a promise
// holds, no other node can end a local session. After that the client asks other nodes too, because the node that
// served last may have forgotten the session.
func (m *Manager) Home() route.Home {
	held := m.needs.Held()
	switch {
	case !held.Local:
		return route.Last
	case held.OnlyLocal && held.Promised && !held.Upgrading && held.Opens == 0:
		return route.Only
	case m.current == nil || m.ReadOnly(m.current): // a round tries a read-only node last, even if it served last
		return route.First
	default: // the current node still serves, and the client leaves it because of a fault
		return route.Last
	}
}
