package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"holdfast/client/internal/core"
	"holdfast/session"
)

// MaxConnections is the largest number of connections of a [Pool].
const MaxConnections = 1000

// Pool holds thousands of sessions over a few connections, spread over the nodes. Each connection is a separate
// [Client], and goes to the server with the fewest other connections of the pool. Each session is opened through the
// connection that holds the fewest sessions. One message keeps all sessions of a connection alive, or one message for
// each group, when their timeouts differ by a factor of two or more. Safe for concurrent use.
//
// A session stays with its connection. When a node is lost, each of its connections moves with its sessions to the
// server with the fewest connections. n connections to the lost node spread its sessions over n other nodes, so a small
// multiple of the number of nodes is a good number of connections. When a node comes back, connections stay where they
// are; new connections, and connections that move, prefer it. The pool distinguishes servers by their names: configure
// the names that the nodes advertise.
type Pool struct {
	clients []*Client

	mu      sync.Mutex
	opening []int    // guarded by mu; for each connection, its pending opens and resumes
	places  []string // guarded by mu; for each connection, the server that it is at or tries
}

// occupancy is the load of a connection. The loop of its client writes the load; the pool reads it. Safe for concurrent
// use.
type occupancy struct {
	sessions  atomic.Int64
	connected atomic.Bool
	server    atomic.Pointer[string] // of the connection; empty for none
}

func (o *occupancy) note(load core.Load) {
	o.sessions.Store(int64(load.Sessions))
	o.connected.Store(load.Writes)
	if known := o.server.Load(); known == nil || *known != load.Server {
		o.server.Store(new(load.Server))
	}
}

// at returns the server of the connection, empty for none.
func (o *occupancy) at() string {
	if server := o.server.Load(); server != nil {
		return *server
	}
	return ""
}

// NewPool returns a pool with the given number of connections, 1 to [MaxConnections]. Like [New], NewPool does not
// connect yet. cfg.Instance must be 0: each connection draws its own. The error joins a [session.FieldError] for each
// fault.
func NewPool(cfg Config, connections int) (*Pool, error) {
	var errs []error
	if connections < 1 || connections > MaxConnections {
		errs = append(errs, &session.FieldError{Field: "connections", Limit: fmt.Sprintf("1 to %d", MaxConnections)})
	}
	if cfg.Instance != 0 {
		errs = append(errs, &session.FieldError{Field: "instance", Limit: "0 in a pool"})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("configure pool: %w", err)
	}
	if cfg.Rand != nil {
		cfg.Rand = &lockedSource{source: cfg.Rand}
	}
	known := new(seen)
	p := &Pool{opening: make([]int, connections), places: make([]string, connections)}
	for i := range connections {
		c, err := New(cfg)
		if err != nil {
			return nil, fmt.Errorf("configure pool: %w", err)
		}
		c.seen = known
		c.spread = func(servers []string) { p.spread(i, servers) }
		c.served = func(server string) { p.recordServer(i, server) }
		p.clients = append(p.clients, c)
	}
	return p, nil
}

// Open is [Client.Open] through the connection that holds the fewest sessions.
func (p *Pool) Open(ctx context.Context, o SessionOptions) (*Session, error) {
	i := p.pick()
	defer p.release(i)
	return p.clients[i].Open(ctx, o)
}

// Resume is [Client.Resume] through the connection that holds the fewest sessions. It returns [ErrHeld] when any
// connection of the pool holds the session.
func (p *Pool) Resume(ctx context.Context, t session.Token) (*Session, error) {
	for _, c := range p.clients {
		if c.holds(t.ID) {
			return nil, fmt.Errorf("resume session %s: %w", t.ID, ErrHeld)
		}
	}
	i := p.pick()
	defer p.release(i)
	return p.clients[i].Resume(ctx, t)
}

// pick returns the connection with the fewest sessions among all connections that are up or hold no session yet;
// otherwise among all. Connections without sessions count because otherwise the first connection that is up would get
// every session.
func (p *Pool) pick() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	best, bestServes, fewest := 0, false, int64(0)
	for i, c := range p.clients {
		sessions := c.occupancy.sessions.Load()
		load, serves := sessions+int64(p.opening[i]), sessions == 0 || c.occupancy.connected.Load()
		if i == 0 || serves && !bestServes || serves == bestServes && load < fewest {
			best, bestServes, fewest = i, serves, load
		}
	}
	p.opening[best]++
	return best
}

func (p *Pool) release(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening[i]--
}

// spread sorts servers, which come in random order, by the number of other connections there. It records that
// connection i goes to the first server.
func (p *Pool) spread(i int, servers []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := make(map[string]int, len(p.places))
	for j, place := range p.places {
		if j != i {
			count[place]++
		}
	}
	slices.SortStableFunc(servers, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	if len(servers) > 0 {
		p.places[i] = servers[0]
	}
}

// recordServer records the server that serves connection i.
func (p *Pool) recordServer(i int, server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places[i] = server
}

// UpdateServers is [Client.UpdateServers] for each connection. It returns the first error.
func (p *Pool) UpdateServers(servers []string) error {
	for _, c := range p.clients {
		if err := c.UpdateServers(servers); err != nil {
			return err
		}
	}
	return nil
}

// Connection describes a connection of a [Pool].
type Connection struct {
	// Server is the server that the connection is at or goes to; empty before the first need of the connection.
	Server string
	// Connected reports whether the connection is up, at a node that accepts writes.
	Connected bool
	// Sessions is the number of sessions that the connection holds.
	Sessions int
}

// Connections describes each connection of the pool now.
func (p *Pool) Connections() []Connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Connection, len(p.clients))
	for i, c := range p.clients {
		all[i] = Connection{
			Server: p.places[i], Connected: c.occupancy.connected.Load(), Sessions: int(c.occupancy.sessions.Load()),
		}
	}
	return all
}

// Close is [Client.Close] for each connection. It always returns nil.
func (p *Pool) Close() error {
	var closing sync.WaitGroup
	for _, c := range p.clients {
		closing.Go(func() { _ = c.Close() }) // always nil
	}
	closing.Wait()
	return nil
}

// lockedSource lets the clients of a pool share a source of random numbers.
type lockedSource struct {
	mu     sync.Mutex
	source rand.Source // guarded by mu
}

// Uint64 returns the next number.
func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}
