package client

import (
	"errors"

	"holdfast/session"
)

// homing says when a round over the nodes comes to the one that served last, which alone knows the local sessions (L1).
type homing uint8

const (
	// homeLast: there is nothing to find there that is not elsewhere.
	homeLast homing = iota
	// homeFirst: local sessions live there, if it does; the others can be moved to any node.
	homeFirst
	// homeOnly: no other node can do anything for this client.
	homeOnly
)

// homing returns how to look for a node. While a promise holds, the local sessions live for sure if their node does. After
// that others are asked too: what they say ends a session that nobody may keep any more.
func (l *loop) homing() homing {
	local, all := l.locals()
	promised, lifting := false, false
	for _, h := range l.sessions {
		promised, lifting = promised || !h.until.IsZero(), lifting || h.lifting
	}
	switch {
	case !local:
		return homeLast
	case all && promised && !lifting && len(l.opens) == 0:
		return homeOnly
	case l.cur == nil:
		return homeFirst
	default: // it serves still, and is left for its faults
		return homeLast
	}
}

// locals reports whether a local session is held, and whether nothing else is.
func (l *loop) locals() (local, all bool) {
	all = len(l.sessions) > 0
	for _, h := range l.sessions {
		is := h.token.Local && h.joining == nil // where one lives that is being joined is not known
		local, all = local || is, all && is
	}
	return local, all
}

// servedFor is served for an answer about a local session or a global one. What a node does for a local one says nothing of a
// leader, and so decides nothing for the others.
func (l *loop) servedFor(c *conn, local bool) {
	if local {
		for _, h := range l.sessions {
			if !h.token.Local {
				return
			}
		}
	}
	l.served(c)
}

// homeless reports whether a refused resume is to be tried at another node: of a local session that is being joined and that
// may be known there, by a client with nothing else to lose by going there.
func (l *loop) homeless(h *held, err error) bool {
	expired, ok := errors.AsType[*session.ExpiredError](err)
	return ok && expired.LocalTo != 0 && h.token.Local && h.joining != nil && len(l.sessions) == 1 && len(l.opens) == 0
}
