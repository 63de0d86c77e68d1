package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// moves decides which node is tried next, and when the present one is left.
type moves struct {
	ledger
	router route.Router
	lag    route.Lag
	learning
	racing []*Conn // not up yet: the first that comes up becomes next
	// adopted is when the present connection became that, brief how many in a row were left at once.
	adopted time.Time
	brief   int
	// stayed: a move has ended where it began. See stay.
	stayed bool
	// trouble is why connections and nodes have failed since one has served.
	trouble route.Failure
}

// leave begins a move because of a fault of c. The sessions stay on c, and are touched there, until another node has
// served something.
func (m *moves) leave(c *Conn, why error) {
	if errors.Is(why, ErrStalled) { // not the word of a node
		m.trouble.Met(route.Unreachable(c.Address, why))
	} else {
		m.trouble.Met(fmt.Errorf("%s: %w", c.Address, why))
	}
	if c != m.cur || c.failing != nil {
		return
	}
	c.failing = why
	m.effects.log(hclog.Info, "looking for another node", "address", c.Address, "error", why)
	m.beginMove()
}

func (m *moves) beginMove() {
	r := &m.router
	if r.Moving {
		return
	}
	r.Moving = true
	if !r.Fresh {
		m.tryOn() // the node that is left has served nothing
		return
	}
	r.Fresh, r.Begun, r.Asked, r.Rounds, r.At = false, false, 0, 0, m.now.Add(m.rest())
}

// rest returns how long the client stays without a new node. That is nothing, unless it has left some in a row as soon
// as it had come to them: then nodes may be ending its connections for what it sends, and it would send that again and
// again without a pause.
func (m *moves) rest() time.Duration {
	if m.brief++; m.now.Sub(m.adopted) >= briefly {
		m.brief = 0
	}
	if m.brief <= maxBrief {
		return 0
	}
	return m.cfg.Jitter.Within(m.bound(hedgePart, m.cfg.HedgeDelay))
}

// endMove gives up all attempts, and stays at the present connection.
func (m *moves) endMove() {
	m.router.Moving = false
	m.dropRacing()
	if m.next != nil {
		m.drop(m.next, nil)
	}
}

// recovered reports whether the present connection has no fault any more.
func (m *moves) recovered() bool { return m.cur != nil && m.cur.failing == nil && !m.readOnly(m.cur) }

// stay ends a move where it began. Sessions and opens that only the candidate was asked for are asked for at the
// present connection, in the next step.
func (m *moves) stay() {
	m.endMove()
	m.stayed = true
}

// dropRacing gives up the attempts to connect that are under way. They are made again when the round goes on.
func (m *moves) dropRacing() {
	for _, c := range m.racing {
		m.effects.hangUp(c)
		m.router.PutBack(c.Target)
	}
	m.racing = nil
}

// drop forgets a connection. Its requests go through the next one, unless they were sent and their callers want to know
// that the outcome is unknown. The outcome of its resumes stays unknown: a resume that takes effect later is recognized
// by its instance (see moved). With err set, the sessions that it served are told.
func (m *moves) drop(c *Conn, err error) {
	m.effects.hangUp(c)
	if c == m.cur {
		m.cur = nil
	} else {
		m.next = nil
	}
	for r := range c.window.InFlight() {
		if !c.heard && route.Denied(err) {
			break // the node has done nothing of what it was asked for
		}
		switch b := r.Body.(type) {
		case *resumeBody:
			m.unknown(b.h.joining)
		case *openBody:
			m.unknown(b.call)
		case *closeBody:
			for _, call := range slices.Clone(b.h.closing) {
				m.unknown(call)
			}
		case *upgradeBody:
			for _, call := range slices.Clone(b.h.upgrading) {
				m.unknown(call)
			}
		}
	}
	m.uproot(c)
	for r := range c.window.InFlight() {
		release(r)
	}
	for r := range c.window.Queued() {
		release(r)
	}
	m.unserve(c, err)
}

// lookFurther begins a move to a read-write node, unless the read-only node of c has all that is needed.
func (m *moves) lookFurther(c *Conn) {
	if c.failing != nil || !m.lacks(c) {
		return
	}
	m.leave(c, session.ErrReadOnly)
	// a pause, so that the client does not move to a node again and again that serves what it should not
	if r := &m.router; !r.Begun {
		r.At = route.Latest(r.At, m.now.Add(m.cfg.Jitter.Backoff(1)))
	}
}

// lacks reports whether anything needs more than the read-only node of c: a global session or open, or a local one that
// is not its own.
func (m *moves) lacks(c *Conn) bool {
	if m.forest.needsLeader() {
		return true
	}
	for call := range m.opens {
		if call.h == nil && (!call.Want.Local || call.on != c) {
			return true
		}
	}
	for _, h := range m.sessions {
		if !h.token.Local || h.on != c && !h.askedAt(c) {
			return true
		}
	}
	return false
}

// settleFor ends the search for a read-write node when the read-only node of c has all that is needed.
func (m *moves) settleFor(c *Conn) {
	if m.readOnly(c) && errors.Is(c.failing, session.ErrReadOnly) && !m.lacks(c) {
		c.failing = nil
		m.endMove()
	}
}

// homing returns when a round comes to the node that served last, which alone knows the local sessions. While a promise
// holds, no other node can end them. After that the client asks others too: by then nobody may keep such a session any
// more.
func (m *moves) homing() route.Home {
	local, all := m.locals()
	promised, upgrading := false, false
	for _, h := range m.sessions {
		promised, upgrading = promised || !h.until.IsZero(), upgrading || h.upgradeSent
	}
	switch {
	case !local:
		return route.Last
	case all && promised && !upgrading && len(m.opens) == 0:
		return route.Only
	case m.cur == nil || m.readOnly(m.cur): // a round comes to a read-only node last, also when it served last
		return route.First
	default: // the present node still serves, and is left for its faults
		return route.Last
	}
}
