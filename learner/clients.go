package learner

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// health says whether this node's clients can be sure that their touches count.
type health uint8

const (
	// healthy: the node learns of good rounds.
	healthy health = iota
	// healthJeopardy: the node has learned of no good round for so long that touches may not count (S4 jeopardy).
	healthJeopardy
	// healthReadOnly: the node is also read-only (N1 node mode).
	healthReadOnly
)

// clients holds the connections that receive events, and sends them the changes of the node's health. Safe for
// concurrent use.
type clients struct {
	beats     *heartbeats
	modeFacts *modeFacts
	// try is Config.Try.
	try func() []string
	log hclog.Logger
	// wake makes Server.Run call updateHealth at once: a round was good after jeopardy, or a client connected in
	// jeopardy.
	wake chan struct{}

	mu sync.Mutex
	// health is the health that clients know. guarded by mu
	health health
	// connections are the connections with events. guarded by mu
	connections map[*connection]struct{}
}

func newClients(cfg *Config, beats *heartbeats, facts *modeFacts) *clients {
	return &clients{
		beats: beats, modeFacts: facts, try: cfg.Try, log: cfg.Logger,
		wake: make(chan struct{}, 1), connections: make(map[*connection]struct{}),
	}
}

// add registers a connection with events. If the node's health is bad, the connection is sent the health at once.
func (c *clients) add(conn *connection) {
	c.mu.Lock()
	c.connections[conn] = struct{}{}
	unhealthy := c.health != healthy
	c.mu.Unlock()
	if unhealthy {
		notify(c.wake)
	}
}

// remove unregisters a connection.
func (c *clients) remove(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.connections, conn)
}

// list returns the connections with events.
func (c *clients) list() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.connections))
}

// markDrained records for a connection that its client knows whether the node is being drained, and reports whether
// that is new.
func (c *clients) markDrained(conn *connection, drained bool) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = conn.drained != drained
	conn.drained = drained
	return news
}

// well reports whether clients know the node as healthy.
func (c *clients) well() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health == healthy
}

// count returns the number of connections with events.
func (c *clients) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.connections)
}

// updateHealth determines the node's health and sends it to every connection that knows another health. Only Server.Run
// calls updateHealth, so clients receive the changes in order.
func (c *clients) updateHealth(now time.Duration) {
	readOnly := c.modeFacts.mode(now) == session.ModeReadOnly
	c.mu.Lock()
	since, was := c.beats.lastGood(), c.health
	quiet, known := c.beats.quiet(now)
	is := healthJeopardy
	switch {
	case quiet <= c.beats.jeopardyAfter(): // a good round may have come after mode was called
		is = healthy
	case readOnly:
		is = healthReadOnly
	}
	c.health = is
	var uninformed []*connection
	for conn := range c.connections {
		if conn.knownHealth != is {
			conn.knownHealth = is
			uninformed = append(uninformed, conn)
		}
	}
	c.mu.Unlock()

	// A node that has just started has lost nothing yet.
	if was != is && (known || len(uninformed) > 0 || is == healthReadOnly || was == healthReadOnly) {
		c.logChange(was, is, "good", since, "connections", len(uninformed))
	}
	for _, conn := range uninformed {
		switch to := conn.listener(); {
		case to == nil: // the connection has just ended
		case is == healthy:
			to.JeopardyEnded()
		default:
			to.Jeopardy(since, c.try())
		}
	}
}

func (c *clients) logChange(was, is health, args ...any) {
	level, word := hclog.Info, "jeopardy is over"
	switch {
	case is == healthReadOnly:
		level, word = hclog.Warn,
			"read-only: no good round for long: reads of the applied state are served, writes are refused"
	case is == healthJeopardy && was == healthReadOnly:
		level, word = hclog.Warn, "no longer read-only, and no good round: clients are in jeopardy"
	case is == healthJeopardy:
		level, word = hclog.Warn, "no good round: clients are in jeopardy"
	case was == healthReadOnly:
		word = "no longer read-only: jeopardy is over"
	}
	c.log.Log(level, word, args...)
}
