package learner

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// health says whether clients of this node can be sure that their touches count.
type health uint8

const (
	// healthy: the node hears of good rounds.
	healthy health = iota
	// healthJeopardy: the node has heard of no good round for so long that touches may not count (S4).
	healthJeopardy
	// healthReadOnly: the node has become read-only besides (N1).
	healthReadOnly
)

// clients holds the connections that hear events, and tells them of the node's health. Safe for concurrent use.
type clients struct {
	beats    *heartbeats
	standing *standing
	// try is Config.Try.
	try func() []string
	log hclog.Logger
	// wake makes Server.Run judge at once: a round was good after jeopardy, or a client came in jeopardy.
	wake chan struct{}

	mu sync.Mutex
	// health is what clients are told. guarded by mu
	health health
	// connections are the connections with events. guarded by mu
	connections map[*connection]struct{}
}

func newClients(cfg *Config, beats *heartbeats, standing *standing) *clients {
	return &clients{
		beats: beats, standing: standing, try: cfg.Try, log: cfg.Logger,
		wake: make(chan struct{}, 1), connections: make(map[*connection]struct{}),
	}
}

// add has a connection with events hear of the node's health: at once when that is bad.
func (c *clients) add(conn *connection) {
	c.mu.Lock()
	c.connections[conn] = struct{}{}
	tell := c.health != healthy
	c.mu.Unlock()
	if tell {
		notify(c.wake)
	}
}

// remove forgets a connection.
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

// tellDrained notes what a connection is told of the node being drained, and reports whether that is news to it.
func (c *clients) tellDrained(conn *connection, drained bool) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = conn.drained != drained
	conn.drained = drained
	return news
}

// well reports whether clients are told that all is well.
func (c *clients) well() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health == healthy
}

// count returns how many connections with events there are.
func (c *clients) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.connections)
}

// judge looks at the node's health and tells it to every connection that was told otherwise. Only Server.Run calls it,
// so clients hear of changes in their order.
func (c *clients) judge(now time.Duration) {
	readOnly := c.standing.mode(now) == session.ModeReadOnly
	c.mu.Lock()
	since, was := c.beats.lastGood(), c.health
	quiet, known := c.beats.quiet(now)
	is := healthJeopardy
	switch {
	case quiet <= c.beats.jeopardyAfter(): // a good round may have come since the mode was looked at
		is = healthy
	case readOnly:
		is = healthReadOnly
	}
	c.health = is
	var tell []*connection
	for conn := range c.connections {
		if conn.told != is {
			conn.told = is
			tell = append(tell, conn)
		}
	}
	c.mu.Unlock()

	// A node that has just started has lost nothing yet.
	if was != is && (known || len(tell) > 0 || is == healthReadOnly || was == healthReadOnly) {
		c.logChange(was, is, "good", since, "connections", len(tell))
	}
	for _, conn := range tell {
		switch to := conn.listener(); {
		case to == nil: // it has just ended
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
