package core

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

// inJeopardy handles a node's word that touches may not count (S4).
func (k *links) inJeopardy(c *Conn, m *holdfastv1.Jeopardy) {
	k.router.Learn(m.GetTry())
	again := c.jeopardy
	c.jeopardy = true
	if c == k.next {
		// After a fail-over every node says so until it hears of the new leader's first good round, and would move the
		// sessions all the same. What it answers counts, if it does soon: trying one node after the other would have
		// each of them move all sessions.
		c.deadline = route.Earliest(c.deadline, k.now.Add(k.bound(jeopardyPart, k.cfg.ConnectTimeout)))
		k.trouble.Met(fmt.Errorf("%s: %w", c.Address, errJeopardy))
		return
	}
	if k.readOnly(c) {
		return // which says more: the sessions know, and another node is looked for
	}
	if !again { // a node says so again when it becomes read-only
		k.tellGlobal(c, errJeopardy, func(*Session) trigger { return endangered })
	}
	if _, all := k.locals(); all && len(k.opens) == 0 {
		return // local sessions depend on no leader, and would end elsewhere
	}
	k.leave(c, errJeopardy)
}

// modeIs notes what the node of c can do.
func (k *links) modeIs(c *Conn, mode session.Mode) {
	was := k.readOnly(c)
	c.state.Mode = mode
	if c != k.cur {
		return // the one that is tried is judged by what it answers
	}
	if mode == session.ModeNoLeader {
		k.noneReadOnly(c)
	}
	if k.readOnly(c) == was {
		return
	}
	switch {
	case !was:
		k.holdBack(c)
		for _, h := range k.sessions {
			if h.on == c {
				k.toReadOnly(h, c)
			}
		}
		k.rejoin()
		k.lookFurther(c)
	case mode == session.ModeReadWrite:
		k.readWriteAgain(c)
	default: // neither reads nor writes
		k.rejoin()
		k.queueOpens()
	}
}

// heardOf takes what the node of c says of itself with a message, before the message itself.
func (k *links) heardOf(c *Conn, p *holdfastv1.NodeState) {
	state := wire.StateFrom(p)
	if state.Node == 0 {
		return
	}
	k.effects.Seen = max(k.effects.Seen, state.Index)
	mode := state.Mode
	state.Mode = c.state.Mode
	c.state = state
	if mode != 0 {
		k.modeIs(c, mode)
	}
}

// stayReadOnly keeps the connection that was tried, at a node that is read-only, for want of a better one, and goes on
// looking.
func (k *links) stayReadOnly(err error) {
	c := k.next
	k.cur, k.next, c.probe = c, nil, probe{}
	k.effects.Adopted = c.Server
	c.deadline, c.failing = time.Time{}, err
	k.holdBack(c)
	k.effects.log(hclog.Info, "connected to a read-only node", "address", c.Address)
	k.rejoin()
	k.attemptFailed(fmt.Errorf("%s: %w", c.Address, err))
}

// readWriteAgain uses a node at once that hears of a leader again. What it serves already goes on when it says that
// jeopardy is over.
func (k *links) readWriteAgain(c *Conn) {
	serves := false
	for _, h := range k.sessions {
		serves = serves || h.on == c
	}
	if !serves && !c.dismissed() {
		c.failing, k.router.Fresh = nil, true
		k.endMove() // nobody serves anything, so that nothing is lost where an attempt was under way
	}
	k.rejoin()
	k.queueOpens()
}

// noneReadOnly tells the sessions that the node of c serves no reads any more either: those that it has not served
// since the client came from a read-only one are among them.
func (k *links) noneReadOnly(c *Conn) {
	for _, h := range k.sessions {
		if h.state == StateConnectedReadOnly {
			k.emit(h, k.without(h, c), errJeopardy)
		}
	}
}

// without returns what it is for h that the node of c serves no reads any more either.
func (k *links) without(h *Session, c *Conn) trigger {
	if h.on == c {
		return endangered
	}
	return disconnected
}

// stays reports whether c, which refused with err, is stayed at as a read-only node. Neither a node that serves
// sessions is left for it, nor another read-only one; and one that lags has nothing that the client may be shown.
func (k *links) stays(c *Conn, err error) bool {
	return c == k.next && k.cur == nil && k.readOnly(c) && errors.Is(err, session.ErrReadOnly) &&
		c.state.Index >= k.effects.Seen
}

// parks reports whether what the node of c refused with err waits until there is a leader.
func (k *links) parks(c *Conn, err error) bool {
	return c == k.cur && k.readOnly(c) && errors.Is(err, session.ErrReadOnly)
}
