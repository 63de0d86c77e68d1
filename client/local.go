package client

import (
	"errors"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// homing returns how to look for a node. While a promise holds, the local sessions live for sure if their node does.
// After that others are asked too: what they say ends a session that nobody may keep any more.
func (l *loop) homing() route.Home {
	local, all := l.locals()
	promised, upgrading := false, false
	for _, h := range l.sessions {
		promised, upgrading = promised || !h.until.IsZero(), upgrading || h.upgradeSent
	}
	switch {
	case !local:
		return route.Last
	case all && promised && !upgrading && len(l.opens) == 0:
		return route.Only
	case l.cur == nil || l.readOnly(l.cur): // which is put off, if it is the one that served last
		return route.First
	default: // it serves still, and is left for its faults
		return route.Last
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

// servedFor is served for an answer about a session. What a node does for a local one says nothing of a leader, and so
// decides nothing for the others, nor for opens; but that it is better than none.
func (l *loop) servedFor(c *conn, t session.Token) {
	if !t.Local || l.needsNoLeader() || l.cur == nil && l.allLocal() {
		l.served(c)
	}
}

// sentHome takes a refusal of a resume, and reports whether it says that the session may be known at its own node only
// and is to be looked for there: by a client that has nothing else to lose by going on, and until the promise has run
// out. A node that has served something is not left for that: it is the one that a round would come back to.
func (l *loop) sentHome(c *conn, h *held, err error) bool {
	expired, ok := errors.AsType[*session.ExpiredError](err)
	if !ok || expired.LocalTo == 0 || !h.token.Local || len(l.opens) > 0 {
		return false
	}
	h.upgradeSent = false // no upgrade has taken effect by now (L6)
	return h.joining != nil && len(l.sessions) == 1 || c != l.cur && l.homing() == route.Only
}
