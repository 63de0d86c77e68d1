package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// moves decides which node is tried next, and when the present one is left.
type moves struct {
	ledger
	router route.Router
	lag    route.Lag
	racing []*Conn // not up yet: the first one that is becomes next
	// stayed: a move has ended where it began. See stay.
	stayed bool
	// trouble is what connections and nodes had against serving since one has served.
	trouble route.Failure
}

// leave looks for another node because of what is wrong with c. The sessions stay on c, and are touched there, until
// the other one has served something.
func (m *moves) leave(c *Conn, why error) {
	if errors.Is(why, ErrStalled) { // which is no word of the node
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
	r.Fresh, r.Begun, r.Asked, r.Rounds, r.At = false, false, 0, 0, m.now
}

// endMove stays where the client is.
func (m *moves) endMove() {
	m.router.Moving = false
	m.dropRacing()
	if m.next != nil {
		m.drop(m.next, nil)
	}
}

// recovered reports whether the client looks for another node, and has no reason to any more.
func (m *moves) recovered() bool { return m.cur != nil && m.cur.failing == nil && !m.readOnly(m.cur) }

// stay ends a move at the node that served when it began, while another one is still tried. What was begun during the
// move, and only that one has been asked for, is asked for where the client stays, once what is being done is done: see
// step. (One that fails leaves the same to failedNext.)
func (m *moves) stay() {
	m.endMove()
	m.stayed = true
}

// dropRacing gives up the attempts to connect that are under way: they are tried again when the round goes on.
func (m *moves) dropRacing() {
	for _, c := range m.racing {
		m.effects.hangUp(c)
		m.router.PutBack(c.Target)
	}
	m.racing = nil
}

// drop forgets a connection. Requests that wait on it go through the next one, unless they were sent and their
// callers want to know instead; the outcome of its resumes will never be heard: one that takes effect later is known
// by its instance (see moved). Sessions that it served are told when err is set.
func (m *moves) drop(c *Conn, err error) {
	m.effects.hangUp(c)
	if c == m.cur {
		m.cur = nil
	} else {
		m.next = nil
	}
	for r := range c.window.InFlight() {
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
	for r := range c.window.InFlight() {
		release(r)
	}
	for r := range c.window.Queued() {
		release(r)
	}
	m.unserve(c, err)
}

// lookFurther looks for a read-write node, unless c has all that is needed.
func (m *moves) lookFurther(c *Conn) {
	if c.failing != nil || !m.lacks(c) {
		return
	}
	m.leave(c, session.ErrReadOnly)
	// a node that serves what it should not is not moved to again and again without a pause
	if r := &m.router; !r.Begun {
		r.At = route.Latest(r.At, m.now.Add(m.cfg.Jitter.Backoff(1)))
	}
}

// lacks reports whether there is anything but local sessions that the node of c, which is read-only, serves or is to
// open.
func (m *moves) lacks(c *Conn) bool {
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

// settleFor ends the search for a read-write node when c, which is read-only, has all that is needed.
func (m *moves) settleFor(c *Conn) {
	if m.readOnly(c) && errors.Is(c.failing, session.ErrReadOnly) && !m.lacks(c) {
		c.failing = nil
		m.endMove()
	}
}

// homing returns how to look for a node. While a promise holds, the local sessions live for sure if their node does.
// After that others are asked too: what they say ends a session that nobody may keep any more.
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
	case m.cur == nil || m.readOnly(m.cur): // which is put off, if it is the one that served last
		return route.First
	default: // it serves still, and is left for its faults
		return route.Last
	}
}
