package conn

import (
	"errors"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/session"
)

// Conn is one Connect stream: dialed, candidate or current.
type Conn struct {
	route.Target
	// Window holds the requests of the connection.
	Window *window.Window
	// Touches is the schedule of touches. Package session owns it.
	Touches TouchSchedule
	// Probe is the one request that shows what a candidate can do. Package session owns and sends the probe. A
	// connection that becomes current has no probe.
	Probe Probe
	// Watched: the node watches for the client, so it sends a message each second (V5 stamps for idle watchers).
	// Package tree owns it.
	Watched bool

	up        bool // the stream is open
	responded bool // the node has sent a message
	batch     int  // sessions that the node resumes with one message; 0 until the node has reported the number
	alone     bool // the node refuses messages that resume several sessions
	dialed    time.Time
	deadline  time.Time // of a dialed connection to come up, then of a candidate to serve a request
	// state is the newest state that the node has reported; zero before.
	state    session.NodeState
	jeopardy bool
	failing  error // why the client is leaving the connection; nil if the client stays
}

// TouchSchedule says when and how a connection touches its sessions.
type TouchSchedule struct {
	// Named: the node may serve sessions that the client does not hold, so each touch lists its sessions by id.
	Named bool
	// At is when the next touch is due; zero for never. RenewAt is the earlier moment at which a touch is due because
	// little is promised; zero for none.
	At, RenewAt time.Time
	// Sent is when the last touch was sent.
	Sent time.Time
	// Smallest is the smallest timeout of the sessions on the connection.
	Smallest time.Duration
}

// Due returns when the next touch is due; zero for never.
func (t *TouchSchedule) Due() time.Time {
	if t.At.IsZero() {
		return time.Time{}
	}
	return route.Earliest(t.At, t.RenewAt)
}

// Probe is the one request that shows what a candidate can do. The other requests follow the answer.
type Probe struct {
	Active  bool
	Request *window.Request
}

// Up reports whether the stream is open.
func (c *Conn) Up() bool { return c.up }

// Responded reports whether the node has sent a message.
func (c *Conn) Responded() bool { return c.responded }

// State returns the newest state that the node has reported; the zero value before.
func (c *Conn) State() session.NodeState { return c.state }

// Failing returns why the client is leaving the connection; nil if the client stays.
func (c *Conn) Failing() error { return c.failing }

// ResumeSingly makes the connection resume its sessions one by one from now on.
func (c *Conn) ResumeSingly() { c.alone = true }

// probeAt returns when to probe the node; zero for never.
func (c *Conn) probeAt() time.Time {
	if c.failing != nil {
		return time.Time{}
	}
	if at := c.Window.ProbeAt(AskAfter); !at.IsZero() || !c.Watched {
		return at
	}
	return c.Window.QuietAt(watchSilence)
}

// stallsAt returns when a pending answer is overdue; zero if no answer is pending.
func (c *Conn) stallsAt() time.Time {
	if c.failing != nil {
		return time.Time{}
	}
	return c.Window.StallAt(MaxSilence, SignWithin)
}

// dismissed reports whether the client leaves a connection that may serve well.
func (c *Conn) dismissed() bool {
	return errors.Is(c.failing, errRebalanced) || errors.Is(c.failing, errRemoved) ||
		errors.Is(c.failing, session.ErrDraining)
}

// Leaderless reports whether c's only fault is that the node knows no leader.
func (c *Conn) Leaderless() bool {
	noLeader := c.jeopardy || c.state.Mode == session.ModeReadOnly
	return noLeader && (c.failing == nil || errors.Is(c.failing, ErrJeopardy) ||
		errors.Is(c.failing, session.ErrReadOnly) || errors.Is(c.failing, session.ErrNoLeader))
}

// batchUnknown reports whether resumes wait for the node's first message, which names the largest batch. One resume is
// in flight.
func (c *Conn) batchUnknown() bool {
	return !c.responded && c.Window.Waiting() >= fewResumes && c.Window.Pending()
}
