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

// MaxConnections is the number of connections of a [Pool].
const MaxConnections = 1000

// Pool holds thousands of sessions over a few connections, spread over the nodes: each connection is a [Client] of its
// own and goes to the server that fewest others of the pool are at, each session is opened through the connection that
// holds fewest, and one message keeps all of a connection's sessions alive (those whose timeouts differ by a factor of
// two or more apart).
//
// A session stays with its connection. When a node is lost, each connection to it moves with its sessions, to the
// server that fewest are at: the share of a lost node is spread over n others if there were at least n connections to
// it, so a small multiple of the number of nodes is a good number of connections. When a node comes back, connections
// stay where they are; new ones, and those that move, prefer it. Servers are told apart by their names: configure those
// that nodes advertise. Safe for concurrent use.
type Pool struct {
	clients []*Client

	mu      sync.Mutex
	opening []int    // guarded by mu; calls that a connection is doing
	places  []string // guarded by mu; the server that a connection is at, or tries
}

// occupancy is what the loop of a client tells its pool.
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

// NewPool returns a pool of so many connections, 1 to [MaxConnections]. Like [New] it connects to nothing. cfg.Instance
// must be 0: each connection draws its own.
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
		c.settled = func(server string) { p.settle(i, server) }
		p.clients = append(p.clients, c)
	}
	return p, nil
}

// Open opens a session through the connection that holds fewest; otherwise it is [Client.Open].
func (p *Pool) Open(ctx context.Context, o SessionOptions) (*Session, error) {
	i := p.take()
	defer p.release(i)
	return p.clients[i].Open(ctx, o)
}

// Resume takes a session over through the connection that holds fewest; otherwise it is [Client.Resume]. [ErrHeld] when
// any connection of the pool holds the session.
func (p *Pool) Resume(ctx context.Context, t session.Token) (*Session, error) {
	for _, c := range p.clients {
		if c.holds(t.ID) {
			return nil, fmt.Errorf("resume session %s: %w", t.ID, ErrHeld)
		}
	}
	i := p.take()
	defer p.release(i)
	return p.clients[i].Resume(ctx, t)
}

// take returns the connection to use: that with the fewest sessions, among those that are connected or hold none yet
// (at the beginning all are being made, and those that are up first must not get everything); if there is none, among
// all.
func (p *Pool) take() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	best, bestServes, least := 0, false, int64(0)
	for i, c := range p.clients {
		sessions := c.occupancy.sessions.Load()
		load, serves := sessions+int64(p.opening[i]), sessions == 0 || c.occupancy.connected.Load()
		if i == 0 || serves && !bestServes || serves == bestServes && load < least {
			best, bestServes, least = i, serves, load
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

// spread sorts servers, in a random order, by how many other connections are there, and notes that connection i goes to
// the first.
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

// settle notes where connection i is served.
func (p *Pool) settle(i int, server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places[i] = server
}

// UpdateServers is [Client.UpdateServers] for each connection.
func (p *Pool) UpdateServers(servers []string) error {
	for _, c := range p.clients {
		if err := c.UpdateServers(servers); err != nil {
			return err
		}
	}
	return nil
}

// Connection is what a connection of a pool does.
type Connection struct {
	// Server is where it is, or goes; empty while it has not been needed.
	Server    string
	Connected bool
	Sessions  int
}

// Connections returns what each connection does now.
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

// Close is [Client.Close] for each connection. It returns nil.
func (p *Pool) Close() error {
	var closing sync.WaitGroup
	for _, c := range p.clients {
		closing.Go(func() { _ = c.Close() }) // always nil
	}
	closing.Wait()
	return nil
}

// lockedSource lets the clients of a pool share a source.
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
