package core

import (
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/session"
	"holdfast/tree"
)

// Core is what a client has decided so far. Not safe for concurrent use: one goroutine takes turns with it.
type Core struct {
	answers
	told Position
}

// New returns the core of a client that holds nothing yet.
func New(cfg Config) *Core {
	c := new(Core)
	c.cfg, c.sessions, c.opens = cfg, make(map[session.ID]*Session), make(map[*Call]struct{})
	c.router.Servers, c.router.Spread, c.router.Fresh = slices.Clone(cfg.Servers), cfg.Spread, true
	return c
}

// Turn takes what happened before the moment at, in its order, and returns what is to be done about it. Nothing, or
// nil, stands for the passing of time. Several inputs are decided one after the other, as in a turn for each of them.
// The effects are good until the next turn.
func (c *Core) Turn(at Moment, happened ...Input) *Effects {
	c.effects.reset()
	c.look(at)
	c.checkSessions()
	for _, in := range happened { // a node whose answer waits in the turn is not silent
		if m, ok := in.(Received); ok {
			m.Conn.window.Heard(c.now)
		}
	}
	for i, in := range happened {
		if i > 0 {
			c.step()
		}
		if in != nil {
			in.happen(c)
		}
	}
	c.step()
	c.tell()
	c.effects.WakeAt = c.wakeAt()
	return &c.effects
}

// Holds reports whether the client holds a session, or is taking hold of it.
func (c *Core) Holds(id session.ID) bool { return c.sessions[id] != nil }

// Position returns where the connection is.
func (c *Core) Position() Position { return c.told }

// look takes the time. After a suspension all promises are dropped and the sessions touched at once (S5).
func (c *Core) look(at Moment) {
	c.now = at.Now
	c.seenElsewhere(at)
	if at.Suspensions == c.suspensions {
		return
	}
	c.suspensions = at.Suspensions
	c.effects.log(hclog.Warn, "machine was suspended: promises are void")
	for _, h := range c.sessions {
		c.lapse(h)
	}
	if c.cur != nil && len(c.sessions) > 0 {
		c.cur.touchAt = c.now
	}
}

// step brings everything forward that can be done now.
func (c *Core) step() {
	if c.idle() {
		c.rest()
	} else {
		if c.stayed && c.cur != nil {
			c.rejoin()
			c.queueOpens()
		}
		c.settleFor(c.cur)
		c.checkConns()
		c.advance()
		c.learn()
	}
	c.stayed = false
	for _, on := range []*Conn{c.cur, c.next} {
		if on != nil {
			c.touch(on)
			c.pump(on)
		}
	}
	if c.forest != nil {
		c.tend()
	}
}

// rest keeps the connection, if there is one, for what comes next.
func (c *Core) rest() {
	c.endMove()
	switch {
	case c.cur == nil:
	case c.cur.dismissed():
		c.drop(c.cur, nil)
	default:
		c.cur.failing = nil // what comes next has another node looked for anew
	}
}

// tell says how much there is to do, and where the connection is, if that is another place than before.
func (c *Core) tell() {
	c.effects.Load = Load{Sessions: len(c.sessions), Writes: c.takesWrites()}
	var now Position
	if c.cur != nil {
		c.effects.Load.Server = c.cur.Server
		now = Position{c.cur.Address, c.cur.state}
	}
	former := c.told
	c.effects.Moved = now.Address != former.Address || now.State.Node != former.State.Node ||
		now.State.Mode != former.State.Mode
	if c.effects.Moved {
		c.told, c.effects.Position = now, now
	}
}

// wakeAt returns when there is something to do if nothing arrives; zero for never.
func (c *Core) wakeAt() time.Time {
	at := route.Earliest(route.Earliest(c.dueAt, c.learnsAt()), c.forest.wakesAt())
	if len(c.sessions) > 0 {
		at = route.Earliest(at, c.now.Add(lookEvery))
	}
	if c.next == nil {
		at = route.Earliest(at, route.Earliest(c.router.WakesAt(len(c.racing)), c.roundEndsAt()))
	}
	for _, on := range c.racing {
		at = route.Earliest(at, on.deadline)
	}
	for _, on := range []*Conn{c.cur, c.next} {
		if on != nil {
			at = route.Earliest(at, on.deadline)
			at = route.Earliest(at, on.window.DueAt())
			at = route.Earliest(at, on.touchDue())
		}
	}
	if c.cur != nil && !c.idle() { // a client that needs nothing leaves no node: nothing would be done about it
		at = route.Earliest(at, route.Earliest(c.cur.asksAt(), c.cur.stallsAt()))
	}
	return at
}

// Moment is when a turn is taken.
type Moment struct {
	Now time.Time
	// Suspensions counts those of the machine that were noticed.
	Suspensions uint64
	// Seen is the highest index that any node of Cluster has told, also to others who share it (N4).
	Seen uint64
	// Cluster is the identity of the cluster that Seen and Stamp are of, 0 until it is known.
	Cluster uint64
	// Stamp is the highest stamp of the tree, as Seen.
	Stamp tree.Stamp
}

// Shut ends everything: nothing happens after it. Nobody is told that there is no connection any more.
type Shut struct{}

func (Shut) happen(c *Core) {
	for call := range c.opens {
		c.effects.settle(call, nil, session.ErrClosed)
	}
	for _, h := range c.sessions {
		c.end(h, session.ErrClosed)
	}
	c.fell()
	for _, on := range append(slices.Clone(c.racing), c.cur, c.next) {
		if on != nil {
			c.effects.hangUp(on)
		}
	}
	clear(c.opens)
	c.racing, c.cur, c.next = nil, nil, nil
	c.told = Position{}
}
