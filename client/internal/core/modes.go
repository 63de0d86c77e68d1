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

// inJeopardy handles a node's news that it hears of no leader, so that touches may not count (S4).
func (k *links) inJeopardy(c *Conn, m *holdfastv1.Jeopardy) {
	if !k.cfg.OnlyServers {
		k.router.Learn(m.GetTry())
	}
	again := c.jeopardy
	c.jeopardy = true
	if c == k.next {
		// After a fail-over every node says so until it hears of the new leader's first good round, and serves resumes
		// all the same. So the candidate gets a moment to answer. Trying one node after the other would make each of
		// them move all sessions.
		c.deadline = route.Earliest(c.deadline, k.now.Add(k.bound(jeopardyPart, k.cfg.ConnectTimeout)))
		k.trouble.Met(fmt.Errorf("%s: %w", c.Address, errJeopardy))
		return
	}
	if k.readOnly(c) {
		return // read-only says more: the sessions know, and the client looks for another node
	}
	if !again { // a node says so again when it becomes read-only
		k.tellGlobal(c, errJeopardy, func(*Session) trigger { return endangered })
	}
	if _, all := k.locals(); all && len(k.opens) == 0 {
		return // local sessions depend on no leader, and would end elsewhere
	}
	k.leave(c, errJeopardy)
}

// modeIs notes what the node of c can do, and acts when the present node becomes read-only or stops being so.
func (k *links) modeIs(c *Conn, mode session.Mode) {
	was := k.readOnly(c)
	c.state.Mode = mode
	if c != k.cur {
		return // a candidate is judged by its answers
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

// heardOf takes the state that a node tells with a message, before the message itself.
func (k *links) heardOf(c *Conn, p *holdfastv1.NodeState) {
	state := wire.StateFrom(p)
	if c == k.cur {
		k.clusterIs(&state)
	}
	if !k.isAnother(state.Cluster) {
		k.effects.Seen = max(k.effects.Seen, state.Index)
	}
	c.batch = int(min(p.GetMaxBatch(), maxResumes))
	mode := state.Mode
	state.Mode = c.state.Mode
	c.state = state
	if mode != 0 {
		k.modeIs(c, mode)
	}
}

// stayReadOnly makes the candidate, whose node is read-only, the present connection for want of a better one. The move
// goes on.
func (k *links) stayReadOnly(err error) {
	c := k.next
	k.cur, k.next, c.probe = c, nil, probe{}
	k.clusterIs(&c.state)
	k.effects.Adopted = c.Server
	k.learnSoon()
	c.deadline, c.failing = time.Time{}, err
	k.holdBack(c)
	k.effects.log(hclog.Info, "connected to a read-only node", "address", c.Address)
	k.rejoin()
	k.attemptFailed(fmt.Errorf("%s: %w", c.Address, err))
}

// weigh decides about a candidate that no session is moved to: it becomes the present connection at once, unless that
// is to a read-only node. Then an open shows what the candidate is, or without an open a sign of life, and only a
// better one replaces the present node. Without this the client would carry its watches from one read-only node to the
// other. It reports false while nothing is decided.
func (k *links) weigh(c *Conn) (decided bool) {
	switch {
	case !k.readOnly(k.cur):
		k.adopt()
		return true
	case len(k.opens) > 0:
		return false
	case !c.heard:
		if !c.window.Asked() {
			k.askAlive(c)
		}
		return false
	}
	switch c.state.Mode {
	case session.ModeReadOnly:
		k.failedNext(fmt.Errorf("%s: %w", c.Address, session.ErrReadOnly))
		return true
	case session.ModeNoLeader:
		k.failedNext(fmt.Errorf("%s: %w", c.Address, session.ErrNoLeader))
		return true
	case session.ModeReadWrite:
	}
	k.adopt()
	return true
}

// readWriteAgain uses a node that hears of a leader again. Sessions that it serves already go on when it says that
// jeopardy is over.
func (k *links) readWriteAgain(c *Conn) {
	serves := false
	for _, h := range k.sessions {
		serves = serves || h.on == c
	}
	if !serves && !c.dismissed() {
		c.failing, k.router.Fresh = nil, true
		k.endMove() // no node serves anything, so giving up the attempts loses nothing
	}
	k.rejoin()
	k.queueOpens()
}

// noneReadOnly tells the read-only sessions that the present node does not even serve reads any more.
func (k *links) noneReadOnly(c *Conn) {
	for _, h := range k.sessions {
		if h.state == StateConnectedReadOnly {
			k.emit(h, k.without(h, c), errJeopardy)
		}
	}
}

// without returns the event that h sees when c's node stops serving reads.
func (k *links) without(h *Session, c *Conn) trigger {
	if h.on == c {
		return endangered
	}
	return disconnected
}

// stays reports whether the client stays at c, whose node refused with err because it is read-only. It leaves no
// present connection for such a node, and does not stay at a node that lags, or is of another cluster than the sessions:
// that has nothing the client may be shown.
func (k *links) stays(c *Conn, err error) bool {
	return c == k.next && k.cur == nil && k.readOnly(c) && errors.Is(err, session.ErrReadOnly) &&
		c.state.Index >= k.effects.Seen && !k.isAnother(c.state.Cluster)
}

// parks reports whether a request that the node of c refused with err waits until there is a leader.
func (k *links) parks(c *Conn, err error) bool {
	return c == k.cur && k.readOnly(c) && errors.Is(err, session.ErrReadOnly)
}
