package core

import (
	"errors"
	"time"

	"holdfast/session"
)

// Input is something that happened: a caller wants something, or a connection tells something. It is one of the types
// of this file.
type Input interface{ happen(c *Core) }

// Open asks for a session.
type Open struct{ Call *Call }

// Resume takes hold of a session.
type Resume struct {
	Call  *Call
	Token session.Token
}

// Upgrade makes a session global.
type Upgrade struct {
	Call    *Call
	Session *Session
}

// Close ends a session. The caller has told the application already that nothing is promised any more.
type Close struct {
	Call    *Call
	Session *Session
}

// GiveUp says that a caller does not wait any longer, because of Cause.
type GiveUp struct {
	Call  *Call
	Cause error
}

// Servers is a new list of servers.
type Servers struct{ List []string }

func (in Open) happen(c *Core) {
	c.opens[in.Call] = struct{}{}
	c.queueOpen(in.Call)
}

func (in Resume) happen(c *Core) {
	if c.Holds(in.Token.ID) {
		c.effects.settle(in.Call, nil, ErrHeld)
		return
	}
	c.join(in.Call, in.Token)
}

func (in Upgrade) happen(c *Core) {
	call, h := in.Call, in.Session
	switch {
	case !c.holds(h):
		c.effects.settle(call, nil, h.err)
		return
	case !h.token.Local:
		c.effects.settle(call, h, nil)
		return
	}
	call.h, call.upgrades = h, true
	h.upgrading = append(h.upgrading, call)
	if h.upgradeSent {
		call.last = session.ErrOutcomeUnknown
	}
	if len(h.upgrading) == 1 && h.on != nil {
		c.queueUpgrade(h)
	}
}

func (in Close) happen(c *Core) {
	call, h := in.Call, in.Session
	if !c.holds(h) {
		err := h.err
		if errors.Is(err, session.ErrClosed) {
			err = nil
		}
		c.effects.settle(call, nil, err)
		return
	}
	call.h, call.closes = h, true
	h.closing = append(h.closing, call)
	h.until = time.Time{} // the caller has told the application
	if len(h.closing) == 1 && h.on != nil {
		c.queueClose(h)
	}
}

func (in GiveUp) happen(c *Core) {
	last := in.Call.last
	switch {
	case last == nil:
		last = c.stood(in.Cause)
	case c.readOnly(c.cur) && !errors.Is(last, session.ErrReadOnly):
		last = errors.Join(last, session.ErrReadOnly)
	}
	c.giveUp(in.Call, errors.Join(in.Cause, last))
}

func (in Servers) happen(c *Core) { c.updateServers(in.List) }
