package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// How a client that allows it stays at a read-only node (N5). The connection becomes the present one without having
// served anything, and the move goes on as if there were none: in rounds over all servers, with a back-off after each.
// What such a node would refuse is not sent to it: sessions that no node serves, and opens, are parked until another
// node serves them or this one says that it is read-write again. Those that this node serves are touched as ever:
// touches count for whoever leads next (N2).

// readOnly reports whether c is stayed at as a read-only node.
func (l *loop) readOnly(c *conn) bool {
	return l.cfg.ReadOnly && c != nil && c.state.Mode == session.ModeReadOnly
}

// heardOf takes what the node of c says of itself with a message, before the message itself.
func (l *loop) heardOf(c *conn, p *holdfastv1.NodeState) {
	state := wire.StateFrom(p)
	if state.Node == 0 {
		return
	}
	l.seen.note(state.Index)
	mode := state.Mode
	state.Mode = c.state.Mode
	c.state = state
	if mode != 0 {
		l.modeIs(c, mode)
	}
}

// modeIs notes what the node of c can do.
func (l *loop) modeIs(c *conn, mode session.Mode) {
	was := l.readOnly(c)
	c.state.Mode = mode
	if c != l.cur {
		return // the one that is tried is judged by what it answers
	}
	if mode == session.ModeNoLeader {
		l.noneReadOnly(c)
	}
	if l.readOnly(c) == was {
		return
	}
	switch {
	case !was:
		l.holdBack(c)
		for _, h := range l.sessions {
			if h.on == c {
				l.toReadOnly(h, c)
			}
		}
		l.rejoin()
		l.lookFurther(c)
	case mode == session.ModeReadWrite:
		l.readWriteAgain(c)
	default: // neither reads nor writes
		l.rejoin()
		l.queueOpens()
	}
}

// noneReadOnly tells the sessions that the node of c serves no reads any more either: those that it has not served
// since the client came from a read-only one are among them.
func (l *loop) noneReadOnly(c *conn) {
	for _, h := range l.sessions {
		if h.s.State() == StateConnectedReadOnly {
			l.emit(h, l.without(h, c), errJeopardy)
		}
	}
}

// without returns what it is for h that the node of c serves no reads any more either.
func (l *loop) without(h *held, c *conn) trigger {
	if h.on == c {
		return endangered
	}
	return disconnected
}

// readWriteAgain uses a node at once that hears of a leader again. What it serves already goes on when it says that
// jeopardy is over.
func (l *loop) readWriteAgain(c *conn) {
	serves := false
	for _, h := range l.sessions {
		serves = serves || h.on == c
	}
	if !serves && !c.dismissed() {
		c.failing, l.router.Fresh = nil, true
		l.endMove() // nobody serves anything, so that nothing is lost where an attempt was under way
	}
	l.rejoin()
	l.queueOpens()
}

// stayReadOnly keeps the connection that was tried, at a node that is read-only, for want of a better one, and goes on
// looking.
func (l *loop) stayReadOnly(err error) {
	c := l.next
	l.cur, l.next, c.probing, c.probe = c, nil, false, nil
	if l.settled != nil {
		l.settled(c.Server)
	}
	c.deadline, c.failing = time.Time{}, err
	l.holdBack(c)
	l.logger.Info("connected to a read-only node", "address", c.Address)
	l.rejoin()
	l.attemptFailed(fmt.Errorf("%s: %w", c.Address, err))
}

// stays reports whether c, which refused with err, is stayed at as a read-only node. Neither a node that serves
// sessions is left for it, nor another read-only one; and one that lags has nothing that the client may be shown.
func (l *loop) stays(c *conn, err error) bool {
	return c == l.next && l.cur == nil && l.readOnly(c) && errors.Is(err, session.ErrReadOnly) &&
		c.state.Index >= l.seen.demand()
}

// parks reports whether what the node of c refused with err waits until there is a leader.
func (l *loop) parks(c *conn, err error) bool {
	return c == l.cur && l.readOnly(c) && errors.Is(err, session.ErrReadOnly)
}

// park has everything that needs a leader wait for one. Whether a local session does is the node's to say: it may be
// the one that knows it (L1).
func (l *loop) park(c *conn) {
	needs := false
	for _, h := range l.sessions {
		switch {
		case h.on != nil || h.resuming != nil:
		case h.token.Local:
			l.queueResume(c, h)
		default:
			needs = true
			l.toReadOnly(h, c)
		}
	}
	if needs {
		l.lookFurther(c)
	}
}

// parkResume is park for a session whose resume the node has refused.
func (l *loop) parkResume(c *conn, h *held) {
	h.resuming = nil
	if l.next != nil && (h.token.Local || !l.next.probing) {
		l.queueResume(l.next, h)
		return
	}
	l.toReadOnly(h, c)
	l.lookFurther(c)
}

// holdBack takes back the resumes that wait on c: the node would refuse them one by one.
func (l *loop) holdBack(c *conn) {
	for _, r := range slices.Concat(c.queue, c.again) {
		if b, ok := r.body.(*resumeBody); ok && b.h.resuming == r && !b.h.token.Local {
			b.h.resuming = nil
		}
	}
}

// parkOpen is park for an open. A local one that the node cannot do, which has no ids (L2), waits as well.
func (l *loop) parkOpen(c *conn, call *call) {
	if call.on = nil; !call.opts.Local {
		call.last = session.ErrReadOnly
	}
	l.lookFurther(c)
}

// toReadOnly tells a session that its connection is to a read-only node. A local one that the node serves does not
// mind.
func (l *loop) toReadOnly(h *held, c *conn) {
	if h.s.State() != StateConnectedReadOnly && (h.on != c || !h.token.Local) {
		l.emit(h, onlyReads, fmt.Errorf("%s: %w", c.Address, session.ErrReadOnly))
	}
}

// lookFurther looks for a read-write node, unless c has all that is needed.
func (l *loop) lookFurther(c *conn) {
	if c.failing != nil || !l.lacks(c) {
		return
	}
	l.leave(c, session.ErrReadOnly)
	// a node that serves what it should not is not moved to again and again without a pause
	if m := &l.router; !m.Begun {
		m.At = route.Latest(m.At, l.now.Add(l.jitter.Backoff(1)))
	}
}

// lacks reports whether there is anything but local sessions that the node of c, which is read-only, serves or is to
// open.
func (l *loop) lacks(c *conn) bool {
	for call := range l.opens {
		if call.h == nil && (!call.opts.Local || call.on != c) {
			return true
		}
	}
	for _, h := range l.sessions {
		if !h.token.Local || h.on != c && !h.askedAt(c) {
			return true
		}
	}
	return false
}

// askedAt reports whether a resume of h is on c.
func (h *held) askedAt(c *conn) bool {
	if h.resuming == nil {
		return false
	}
	b, ok := h.resuming.body.(*resumeBody)
	return ok && b.on == c
}

// takesWrites reports whether there is a connection to a node that is not known to be read-only.
func (l *loop) takesWrites() bool { return l.cur != nil && !l.readOnly(l.cur) }

// position is where the connection is.
type position struct {
	address string
	node    session.Node
	mode    session.Mode
}

// tellPlace tells the application where the connection is, if that is another place than before.
func (l *loop) tellPlace() {
	var now position
	var state session.NodeState
	if c := l.cur; c != nil {
		now, state = position{c.Address, c.state.Node, c.state.Mode}, c.state
	}
	if now != l.told && l.cfg.OnNode != nil {
		l.told = now
		l.cfg.OnNode(now.address, state)
	}
}
