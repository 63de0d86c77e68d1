// Package census knows the connections of clients that a node has, on all of its ports, and tells which are busiest.
package census

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

const (
	// Interval is how often the counters of all connections are noted, for rates.
	Interval = 5 * time.Second
	// Interest is for how long after the last question: a node that nobody asks does nothing.
	Interest = time.Minute
	// least and most bound the age of a note that a rate counts from. A younger one makes rates of a few requests, and
	// between an older one and now nobody has asked.
	least, most = time.Second, 3 * Interval
)

// Protocol is what a connection speaks.
type Protocol uint8

// Protocols of clients.
const (
	GRPC Protocol = iota + 1
	ZooKeeper
)

// Source is a connection as the census asks it. Its methods return at once, and are safe for concurrent use.
type Source interface {
	// Requests counts the client's messages.
	Requests() uint64
	// Serves reports whether the connection serves a session.
	Serves(id session.ID) bool
	// Sessions returns so many of the connection's sessions, in any order: all if there are no more.
	Sessions(most int) []session.ID
	// Caller is whose connection it is.
	Caller() Caller
	// Load is what the node has of it now.
	Load() Load
}

// Caller is the client of a connection.
type Caller struct {
	// Name is empty if the client has none. Without Verified it says so itself.
	Name     string
	Verified bool
	// Principals are whom the node vouches for (P1 of the tree). They must not be modified.
	Principals []tree.Principal
}

// Load is what a node has of a connection.
type Load struct {
	// Sessions are those that it serves, Watches those of the tree, Unsent the bytes that wait for the client.
	Sessions, Watches, Unsent int
}

// Entry is a connection in the census.
type Entry struct {
	source   Source
	protocol Protocol
	address  net.Addr
	since    time.Time
	shard    *shard
	// at is the entry's place in its shard. guarded by shard.mu
	at int
	// notes are the newest and the one before, zero for none. guarded by Census.mu
	newest, before note
}

// note is a counter's value at a moment.
type note struct {
	at       time.Time
	requests uint64
}

// shards is how many parts the connections are in. Whoever joins or leaves waits for a copy of one part at most.
const shards = 64

// shard is a part of the connections.
type shard struct {
	mu      sync.Mutex
	entries []*Entry // guarded by mu
}

// Census is the connections of a node. Make it with [New]. Safe for concurrent use.
type Census struct {
	parts [shards]shard
	next  atomic.Uint64

	// mu is held while all connections are looked at, which one goroutine does at a time; never while one joins or leaves.
	mu sync.Mutex
	// part is room for the entries of a shard. guarded by mu
	part []*Entry
	// asked is when somebody asked last, timer the next look if there is one. guarded by mu
	asked  time.Time
	timer  *time.Timer
	closed bool // guarded by mu
}

// New returns a census without connections. It starts nothing until somebody asks.
func New() *Census { return &Census{} }

// Close ends what runs for rates. Connections may still leave.
func (c *Census) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Join adds a connection. It leaves with [Entry.Leave].
func (c *Census) Join(p Protocol, address net.Addr, source Source) *Entry {
	s := &c.parts[c.next.Add(1)%shards]
	e := &Entry{source: source, protocol: p, address: address, since: time.Now(), shard: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.at = len(s.entries)
	s.entries = append(s.entries, e)
	return e
}

// Leave removes the connection; once.
func (e *Entry) Leave() {
	s := e.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.entries) - 1
	s.entries[e.at] = s.entries[last]
	s.entries[e.at].at = e.at
	s.entries[last] = nil
	if s.entries = s.entries[:last]; last == 0 {
		s.entries = nil
	}
}

// each calls do for all connections, without the lock of any part. Called with mu held.
func (c *Census) each(do func(*Entry)) {
	for i := range c.parts {
		s := &c.parts[i]
		s.mu.Lock()
		c.part = append(c.part[:0], s.entries...)
		s.mu.Unlock()
		for _, e := range c.part {
			do(e)
		}
		clear(c.part) // those that leave are not kept
	}
}

// look notes the counters of all connections, and looks again until nobody has asked for long enough.
func (c *Census) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.closed || now.Sub(c.asked) >= Interest {
		c.timer = nil
		return
	}
	c.each(func(e *Entry) { e.note(now, e.source.Requests()) })
	c.timer.Reset(Interval)
}

// interest notes that somebody asks. Called with mu held.
func (c *Census) interest(now time.Time) (begins bool) {
	c.asked = now
	if begins = c.timer == nil && !c.closed; begins {
		c.timer = time.AfterFunc(Interval, c.look)
	}
	return begins
}

// note notes the counter. Called with Census.mu held.
func (e *Entry) note(now time.Time, requests uint64) {
	e.before, e.newest = e.newest, note{now, requests}
}

// rate returns the requests a second, and over which time. Called with Census.mu held.
func (e *Entry) rate(now time.Time, requests uint64) (perSecond float64, over time.Duration) {
	from := note{at: e.since}
	for _, n := range [...]note{e.newest, e.before} {
		if age := now.Sub(n.at); age >= least && age <= most {
			from = n
		}
	}
	if over = now.Sub(from.at); over <= 0 {
		return 0, 0
	}
	return float64(requests-from.requests) / over.Seconds(), over
}
