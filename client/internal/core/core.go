package core

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	trees "holdfast/client/internal/core/tree"
	"holdfast/client/internal/route"
	"holdfast/session"
)

// Config describes how a client behaves.
type Config struct {
	// Instance names the client to the cluster (M1 a resume is a move).
	Instance uint64
	// Servers are tried in random order.
	Servers []string
	// ConnectTimeout bounds an attempt to connect. HedgeDelay is the wait before a parallel attempt starts.
	ConnectTimeout, HedgeDelay time.Duration
	// ReadOnly lets the client stay at a read-only node (N5 read-write nodes first).
	ReadOnly bool
	// FailInFlight answers callers with [session.ErrOutcomeUnknown] when the answer to their request can no longer
	// arrive.
	FailInFlight bool
	// OnlyServers keeps the client from addresses that are not in Servers.
	OnlyServers bool
	// ResolveNames has host names resolved.
	ResolveNames bool
	// Jitter is the source of randomness.
	Jitter *route.Jitter
	// Spread, when set, sorts servers so that the connections of a pool use different servers.
	Spread func(servers []string)
}

// Core is the state of a client's decisions. Not safe for concurrent use: one goroutine calls its methods.
type Core struct {
	conns       *conn.Manager
	sessions    *sessions.Manager
	tree        *trees.Manager
	suspensions uint64
	position    Position // as reported
	effects     Effects
}

// New returns the core of a client without sessions.
func New(cfg Config) *Core {
	conns := conn.New(conn.Config{
		Servers: cfg.Servers, ConnectTimeout: cfg.ConnectTimeout, HedgeDelay: cfg.HedgeDelay, ReadOnly: cfg.ReadOnly,
		OnlyServers: cfg.OnlyServers, ResolveNames: cfg.ResolveNames, Jitter: cfg.Jitter, Spread: cfg.Spread,
	})
	all := sessions.New(sessions.Config{
		Instance: cfg.Instance, FailInFlight: cfg.FailInFlight, Jitter: cfg.Jitter,
	}, conns)
	requests := trees.New(trees.Config{Instance: cfg.Instance, FailInFlight: cfg.FailInFlight}, conns, all)
	all.SetTree(requests)
	users := carried{all, requests}
	conns.SetUser(users, users)
	return &Core{conns: conns, sessions: all, tree: requests}
}

// Turn processes inputs from before the moment at, in their order, and returns the effects to carry out. A turn without
// inputs, or with nil, only advances the time. Several inputs have the effect of one turn each. The effects are valid
// until the next turn.
func (c *Core) Turn(at Moment, happened ...Input) *Effects {
	c.conns.Effects.Reset()
	c.sessions.Effects.Reset()
	c.tree.Effects.Reset()
	c.begin(at)
	for _, in := range happened { // a node whose message waits in the turn is not silent
		if m, ok := in.(Received); ok {
			c.conns.ReceivedEarly(m.Conn)
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
	return c.result()
}

// begin records the time, and handles what depends only on the time.
func (c *Core) begin(at Moment) {
	c.conns.SetTime(at.Now, at.Suspensions)
	c.conns.RecordKnown(at.Known)
	if at.Suspensions != c.suspensions {
		c.suspensions = at.Suspensions
		c.conns.Log(hclog.Warn, "machine was suspended: promises are void")
		c.sessions.Suspended()
	}
	c.sessions.CheckPromises()
}

func (c *Core) step() {
	c.conns.Advance()
	for _, on := range [...]*conn.Conn{c.conns.Current(), c.conns.Candidate()} {
		if on != nil {
			c.sessions.Touch(on)
			c.conns.Pump(on)
		}
	}
	c.tree.Send()
}

// result collects the effects of the turn.
func (c *Core) result() *Effects {
	e := Effects{
		Conns: c.conns.Effects, Sessions: c.sessions.Effects, Tree: c.tree.Effects,
		Load:   Load{Sessions: c.sessions.Len(), Writes: c.conns.AcceptsWrites()},
		WakeAt: route.Earliest(c.conns.WakeAt(), route.Earliest(c.sessions.WakeAt(), c.tree.WakeAt())),
	}
	var now Position
	if current := c.conns.Current(); current != nil {
		e.Load.Server = current.Server
		now = Position{current.Address, current.State()}
	}
	former := c.position
	e.Moved = now.Address != former.Address || now.State.Node != former.State.Node ||
		now.State.Mode != former.State.Mode
	if e.Moved {
		c.position = now
	}
	e.Position = c.position
	c.effects = e
	return &c.effects
}

// Holds reports whether the client holds a session, or a caller is resuming it.
func (c *Core) Holds(id session.ID) bool { return c.sessions.HoldsID(id) }

// Position returns where the client is.
func (c *Core) Position() Position { return c.position }

// Moment is the time of a turn.
type Moment struct {
	Now time.Time
	// Suspensions counts the detected suspensions of the machine.
	Suspensions uint64
	// Known is what nodes have reported, also to other clients of the process (N4 seen index).
	Known conn.Known
}

// Effects are the effects of a turn. The caller carries out Sessions, Tree and Conns in this order, each in the order
// of its fields and of their elements, then Sessions.Answers, all before the next turn, which reuses the memory.
// Conns.Known comes first: a read that follows from another effect demands this index.
type Effects struct {
	Conns    conn.Effects
	Sessions sessions.Effects
	Tree     trees.Effects
	// Load is input for the client's pool.
	Load Load
	// Moved: Position has changed.
	Moved    bool
	Position Position
	// WakeAt is when the next turn is due if nothing happens before; zero for never.
	WakeAt time.Time
}

// Load is how much a client has to do, and where.
type Load struct {
	Sessions int
	// Writes: the client is at a node that is not known to be read-only.
	Writes bool
	// Server is where the client is; empty for none.
	Server string
}

// Position is the client's node, and the newest state that the node has reported.
type Position struct {
	Address string
	State   session.NodeState
}
