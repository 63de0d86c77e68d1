package core

import (
	"errors"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/session"
)

// Conn is one Connect stream, tried or serving.
type Conn struct {
	route.Target
	window *window.Window

	up       bool // the stream is open
	heard    bool // its node has said something
	batch    int  // how many sessions the node resumes with one message; 0 until the node has told it
	alone    bool // its node does not take what resumes several sessions
	dialled  time.Time
	deadline time.Time // of a connection that is tried: to be up, then to have served something
	// state is what the node said of itself last, zero before.
	state    session.NodeState
	jeopardy bool
	watched  bool  // the node watches for the client, so that it says something each second (V5 of the tree)
	failing  error // why the client wants to leave it; nil when it does not
	touching
	probe
}

// touching is when a connection keeps its sessions alive.
type touching struct {
	stray    bool // the node serves sessions that the client does not hold: a touch names those it means
	touchAt  time.Time
	renewAt  time.Time     // when a touch is due because little is promised; zero for not before touchAt
	touched  time.Time     // when the last touch was sent
	smallest time.Duration // timeout of the sessions served here
}

// probe is the one request that shows what a connection that is tried can do: the others follow when it is done.
type probe struct {
	probing bool
	proof   *window.Request
}

// touchDue returns when the next touch is due; zero for never.
func (c *Conn) touchDue() time.Time {
	if c.touchAt.IsZero() {
		return time.Time{}
	}
	return route.Earliest(c.touchAt, c.renewAt)
}

// asksAt returns when the node of c is asked for a sign of life; zero for not now.
func (c *Conn) asksAt() time.Time {
	if c.failing != nil {
		return time.Time{}
	}
	if at := c.window.AsksAt(AskAfter); !at.IsZero() || !c.watched {
		return at
	}
	return c.window.QuietAt(watchSilence)
}

// stallsAt returns when the connection has owed an answer for too long; zero when it owes none.
func (c *Conn) stallsAt() time.Time {
	if c.failing != nil {
		return time.Time{}
	}
	return c.window.StallsAt(MaxSilence, SignWithin)
}

// dismissed reports that the client leaves c although c may serve well.
func (c *Conn) dismissed() bool {
	return errors.Is(c.failing, errRebalanced) || errors.Is(c.failing, errRemoved) ||
		errors.Is(c.failing, session.ErrDraining)
}

// leaderless reports whether the node of c hears of no leader, and the client has nothing else against it.
func (c *Conn) leaderless() bool {
	said := c.jeopardy || c.state.Mode == session.ModeReadOnly
	return said && (c.failing == nil || errors.Is(c.failing, errJeopardy) ||
		errors.Is(c.failing, session.ErrReadOnly) || errors.Is(c.failing, session.ErrNoLeader))
}
