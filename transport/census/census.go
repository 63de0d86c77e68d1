// Package census knows the client connections of a node, on all its ports, and finds the busiest.
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
	// Interval is the interval at which the counters of all connections are sampled, for rates.
	Interval = 5 * time.Second
	// Interest is the time after the last query for which sampling continues: a node without queries does nothing.
	Interest = time.Minute
	// minAge and maxAge bound the age of a sample for a rate. With a younger sample, rates would come from a few
	// requests. A sample is older than maxAge only if no query came since.
	minAge, maxAge = time.Second, 3 * Interval
)

// Protocol is the protocol of a connection.
type Protocol uint8

// Protocols of clients.
const (
	GRPC Protocol = iota + 1
	ZooKeeper
)

// Source is a connection as the census sees it. Its methods return at once, and are safe for concurrent use.
type Source interface {
	// Requests counts the client's messages.
	Requests() uint64
	// Serves reports whether the connection serves a session.
	Serves(id session.ID) bool
	// Sessions returns up to limit of the connection's sessions, in any order.
	Sessions(limit int) []session.ID
	// Caller returns the connection's caller.
	Caller() Caller
	// Load returns the node's present load from the connection.
	Load() Load
}

// Caller is the client of a connection.
type Caller struct {
	// Name is empty for a nameless client. Without Verified, the name is the client's own claim.
	Name     string
	Verified bool
	// Principals are the client's verified principals (P1 principals). They must not be modified.
	Principals []tree.Principal
}

// Load is a node's load from a connection.
type Load struct {
	// Sessions is the number of its sessions, Watches of its watches of the tree, Unsent the unsent bytes for the
	// client.
	Sessions, Watches, Unsent int
}

// Entry is a connection in the census.
type Entry struct {
	source   Source
	protocol Protocol
	address  net.Addr
	since    time.Time
	shard    *shard
	// at is the entry's index in its shard. guarded by shard.mu
	at int
	// newest and before are the last two samples; zero for none. guarded by Census.mu
	newest, before note
}

// note is a sample of a counter.
type note struct {
	at       time.Time
	requests uint64
}

// shards is the number of parts of the connections. A joining or leaving connection waits at most for a copy of one
// part.
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

	// mu is held by the one goroutine that visits all connections; joining and leaving do not take it.
	mu sync.Mutex
	// part is a buffer for the entries of a shard. guarded by mu
	part []*Entry
	// queriedAt is the time of the last query, timer the next sampling if there is one. guarded by mu
	queriedAt time.Time
	timer     *time.Timer
	closed    bool // guarded by mu
}

// New returns a census without connections. It starts nothing before the first query.
func New() *Census { return &Census{} }

// Close ends the sampling. Connections may still leave.
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

// each calls do for all connections, without holding the lock of any part. Called with mu held.
func (c *Census) each(do func(*Entry)) {
	for i := range c.parts {
		s := &c.parts[i]
		s.mu.Lock()
		c.part = append(c.part[:0], s.entries...)
		s.mu.Unlock()
		for _, e := range c.part {
			do(e)
		}
		clear(c.part) // keeps no connection that leaves
	}
}

// sample samples the counters of all connections, and continues until the last query is long ago.
func (c *Census) sample() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.closed || now.Sub(c.queriedAt) >= Interest {
		c.timer = nil
		return
	}
	c.each(func(e *Entry) { e.note(now, e.source.Requests()) })
	c.timer.Reset(Interval)
}

// interest records a query. Called with mu held.
func (c *Census) interest(now time.Time) (begins bool) {
	c.queriedAt = now
	if begins = c.timer == nil && !c.closed; begins {
		c.timer = time.AfterFunc(Interval, c.sample)
	}
	return begins
}

// note records a sample. Called with Census.mu held.
func (e *Entry) note(now time.Time, requests uint64) {
	e.before, e.newest = e.newest, note{now, requests}
}

// rate returns the requests per second, and the time that the rate covers. Called with Census.mu held.
func (e *Entry) rate(now time.Time, requests uint64) (perSecond float64, over time.Duration) {
	from := note{at: e.since}
	for _, n := range [...]note{e.newest, e.before} {
		if age := now.Sub(n.at); age >= minAge && age <= maxAge {
			from = n
		}
	}
	if over = now.Sub(from.at); over <= 0 {
		return 0, 0
	}
	return float64(requests-from.requests) / over.Seconds(), over
}
