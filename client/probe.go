package client

import (
	"errors"

	"holdfast/session"
)

// How a node is tried of which it is likely that it takes no writes: while the client is at a read-only node, and when
// one was read-only since any has served. One request that only a node in touch with a leader can do shows what it is,
// instead of as many as the client has sessions, from each client and in each round; the others follow when it has been
// done. The local sessions that the present node serves do not go along before that: it alone knows them (L1).

// tryNext begins to ask the connection that has come up.
func (l *loop) tryNext(c *conn) {
	if c.probing = l.readOnly(l.cur) || l.router.Refused; !c.probing {
		l.queueResumes(c)
		return
	}
	for _, h := range l.sessions {
		if h.token.Local && !l.keepsHere(h) {
			l.queueResume(c, h)
		}
	}
	l.probe(c)
}

// keepsHere reports whether h has nothing to gain elsewhere: it is local, and the present node, which is left for the
// lack of a leader and for nothing else, serves it or is asked for it.
func (l *loop) keepsHere(h *held) bool {
	c := l.cur
	if c == nil || !h.token.Local || !c.leaderless() {
		return false
	}
	return h.on == c || h.on == nil && h.resuming != nil && l.readOnly(c)
}

// leaderless reports whether the node of c hears of no leader, and the client has nothing else against it.
func (c *conn) leaderless() bool {
	said := c.jeopardy || c.state.Mode == session.ModeReadOnly
	return said && (c.failing == nil || errors.Is(c.failing, errJeopardy) ||
		errors.Is(c.failing, session.ErrReadOnly) ||
		errors.Is(c.failing, session.ErrNoLeader))
}

// queueResumes has the sessions resumed on the connection that is tried. When all are local, what it does for them
// decides nothing for an open that waits for a leader: that goes along.
func (l *loop) queueResumes(c *conn) {
	for _, h := range l.sessions {
		if !l.keepsHere(h) {
			l.queueResume(c, h)
		}
	}
	if l.cur != nil && l.allLocal() && !l.needsNoLeader() {
		l.probeOpen(c)
	}
}

// probe sends the request that shows what the node of the connection that is tried can do, unless that is on its way.
func (l *loop) probe(c *conn) {
	if c.probe != nil && c.probe.body.wanted() {
		return
	}
	c.probe = nil
	for _, h := range l.sessions {
		if !h.token.Local {
			l.queueResume(c, h)
			c.probe = h.resuming
			return
		}
	}
	l.probeOpen(c)
}

// probeOpen is probe when there is no session that shows it: a global open does, and a local one if there is nothing
// else to do.
func (l *loop) probeOpen(c *conn) {
	local := l.needsNoLeader()
	for call := range l.opens {
		if call.h == nil && call.on != c && call.opts.Local == local {
			c.probe = l.sendOpen(c, call)
			return
		}
	}
}

// proved has the others follow a probe that the node has put off: one that takes no writes would have refused it.
func (l *loop) proved(c *conn) {
	if !c.probing {
		return
	}
	c.probing = false
	for _, h := range l.sessions {
		if !h.token.Local && h.resuming != c.probe {
			l.queueResume(c, h)
		}
	}
}

// allLocal reports whether no global session is held or being joined.
func (l *loop) allLocal() bool {
	for _, h := range l.sessions {
		if !h.token.Local {
			return false
		}
	}
	return true
}

// needsNoLeader reports whether all that is held, being joined or to be opened is local.
func (l *loop) needsNoLeader() bool {
	for call := range l.opens {
		if call.h == nil && !call.opts.Local {
			return false
		}
	}
	return l.allLocal()
}

// silent leaves the node that serves h and does not renew its promise. One that hears of no leader is expected to renew
// local ones only, and left for good when it does not.
func (l *loop) silent(h *held) {
	if h.token.Local && h.on.leaderless() {
		l.lost(h.on, errSilent)
		return
	}
	l.leave(h.on, errSilent)
}

// settleFor ends the search for a read-write node when c, which is read-only, has all that is needed.
func (l *loop) settleFor(c *conn) {
	if l.readOnly(c) && errors.Is(c.failing, session.ErrReadOnly) && !l.lacks(c) {
		c.failing = nil
		l.endMove()
	}
}
