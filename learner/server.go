// Package learner is what every node does for its own clients: it serves their connections, keeps their touches, and
// reports the touches to the node that leads. The node that leads does so too, through a link to itself.
//
// A [Server] lives as long as its node. It holds the [TouchTable] and the connections, and implements session.Service.
// A relay serves exactly one leader, over one [Link]. It ends with its link, and the node then gives the server a new
// one.
//
//	client touch --> connection --> TouchTable                      one short lock, no allocation, no network
//	heartbeat    --> relay: take the table, read h, leave out what has moved (T1) --> answer
//	open, resume --> relay --> leader --> log --> own state has applied it --> attach to the table (M3)
//
// Rule numbers refer to docs/protocol.md and docs/tree.md.
package learner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/learner/namespace"
	"holdfast/learner/writes"
	"holdfast/session"
)

// Config configures a [Server].
type Config struct {
	// Node is this node's number.
	Node session.Node
	// Tree is the tree that the state begins with.
	Tree TreeState
	// Interval is the heartbeat interval that counts until a leader has told its own (R1).
	Interval time.Duration
	// Pulse aligns the looks for stalls with other tickers of the node.
	Pulse session.Pulse
	// ExpiryInterval is the width of a bucket of the local sessions' expiry queue. The server raises too small a value
	// to session.MinExpiryInterval.
	ExpiryInterval time.Duration
	// Limits clamps the timeouts of local sessions. The leader clamps those of global sessions.
	Limits session.Limits
	// Capacity bounds the local sessions of this node (O4). The log bounds the global ones.
	Capacity session.Capacity
	// Local allows local sessions (L1). It is the same on every node of a cluster.
	Local bool
	// Upgrade allows clients to make local sessions global (L7). It is the same on every node of a cluster.
	Upgrade bool
	// ReadOnly lets the node serve reads of the state it has applied, once it has run for longer than ReadOnlyAfter
	// without learning of a good round. ReadOnlyAfter counts as 3 intervals at least (N1).
	ReadOnly      bool
	ReadOnlyAfter time.Duration
	// Admitted reports whether the node may take part in its cluster, as far as it knows; nil: it may. It must be safe
	// for concurrent use, take no lock and allocate nothing.
	Admitted func() bool
	// LocalChanged, when set, is told of each local session that opens, gets a new attachment or ends here, before the
	// client is told. A repeated open or resume is told again. LocalChanged must return soon; several goroutines call
	// it.
	LocalChanged func(session.Change)
	// Runs, when set, is called before the server looks at the clocks, by several goroutines. A test blocks it for a
	// while to stall the server: the process then did not run, as far as this package can tell.
	Runs func()
	// Clock is the wall clock that dates the ids and certificates of local sessions; nil is time.Now.
	Clock func() time.Time
	// LaggingWait is how long a request waits for this node to catch up before the answer is LAGGING (M5).
	LaggingWait time.Duration
	// Try returns the client addresses of the other nodes, for clients in jeopardy. Safe for concurrent use.
	Try func() []string
	// FullDisk, when set, reports whether the node's disk is full (O5). It must be safe for concurrent use and return at
	// once.
	FullDisk func() bool
	// Forwards, when set, is told of the streams on which [Server.Forward] sends writes, in the place of the server's own
	// queue of writes.
	Forwards ForwardEvents
	// Telling bounds what the server keeps to tell watches.
	Telling Telling
	// Writes bound the unanswered writes; the zero value is [writes.DefaultLimits].
	Writes writes.Limits
	// Judge, when set, is told with each heartbeat what the newest comparison of digests has found, and which digest
	// this node had reported before that comparison (D2). It must return soon.
	Judge func(reported session.StateDigest, found session.Comparison)
	// Logger gets changes of state, never a touch.
	Logger hclog.Logger
}

// Server serves a node's clients for as long as the node runs. It implements session.Service. Safe for concurrent use.
//
// The server itself only puts its parts together. Each part has a lock of its own or none. It calls only parts that
// stand below it in this list, and the connections that it has to tell. The relay hands each heartbeat to Server.heard.
type Server struct {
	cfg  Config
	view View

	// clients are told of the node's health.
	clients *clients
	// locals serves requests about local sessions. upgrades makes local sessions global.
	locals   *localService
	upgrades *upgrades
	// reads answers Find and List.
	reads *reader
	// upstream sends requests to the leader.
	upstream *upstream
	// registry knows the sessions that are not served here.
	registry *registry
	// standing is what the node's mode follows from.
	standing *standing
	// beats is what leaders have told.
	beats *heartbeats
	// wait lets requests wait for the node's own state.
	wait *applyWait
	// local holds the local sessions: none unless the configuration allows them. ids are the ids for more sessions.
	local *Local
	ids   *idPool
	clock *clock
	table *TouchTable
	// confirmations has the touches that wait until they are confirmed.
	confirmations *confirmations
	// tree serves the tree.
	tree *namespace.Service
	// takeOvers are the recent take-overs of all sessions: those that are served here may have come afterwards (M7).
	takeOvers session.TakeOvers
	// expiries writes the lines about sessions that have expired.
	expiries *expiryLog
	// cluster is the identity of the cluster once the view has told it.
	cluster atomic.Uint64
}

// NewServer returns a server of the state behind view. Its process vouches for its clients from now on (E1).
func NewServer(cfg Config, view View) *Server {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s := &Server{cfg: cfg, view: view, table: NewTouchTable(), ids: newIDPool(), expiries: &expiryLog{logger: cfg.Logger}}
	s.clock = newClock(&cfg, time.Now(), s.table.dropPromises)
	s.local = newLocal(cfg.Node, cfg.ExpiryInterval, s.clock.stalls.suspendedSince, s.ids)
	s.local.usage.Capacity = cfg.Capacity
	s.wait = newApplyWait(&cfg, view)
	s.beats = newHeartbeats(cfg.Interval, s.clock.base)
	s.confirmations = newConfirmations(s.table, s.beats, s.clock)
	s.standing = newStanding(&cfg, s.beats, s.clock, view)
	s.registry = &registry{node: cfg.Node, locals: cfg.Local, view: view, local: s.local, wait: s.wait}
	s.upstream = &upstream{standing: s.standing}
	s.reads = &reader{
		view: view, clock: s.clock, standing: s.standing, wait: s.wait, local: s.local, registry: s.registry,
		upstream: s.upstream,
	}
	s.upgrades = &upgrades{
		node: cfg.Node, interval: cfg.Interval, allowed: cfg.Upgrade,
		view: view, clock: s.clock, table: s.table, local: s.local, registry: s.registry, upstream: s.upstream,
		flights: make(chan *flight), ended: make(chan struct{}),
	}
	s.locals = &localService{
		cfg: &s.cfg, view: view, clock: s.clock, standing: s.standing, table: s.table, local: s.local, ids: s.ids,
		registry: s.registry, reads: s.reads, expiries: s.expiries,
	}
	s.clients = newClients(&cfg, s.beats, s.standing)
	s.tree = namespace.New(namespace.Config{
		Node: treeNode{s}, Wait: cfg.LaggingWait, Pulse: cfg.Pulse, Hub: cfg.Telling.hub(), Lane: cfg.Telling.lane(),
		Rooms: cfg.Telling.rooms(), Writes: cfg.Writes, Tree: cfg.Tree,
	})
	if s.cfg.Forwards == nil {
		s.cfg.Forwards = s.tree
	}
	return s
}

// Run looks for stalls, tells clients of jeopardy, goes on with requests whose entries this node has applied, ends
// local sessions that are due and keeps ids for more, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.wait.queue.run(ctx) })
	wg.Go(func() { s.confirmations.run(ctx) })
	wg.Go(func() { s.tree.Run(ctx) })
	if s.cfg.Local {
		claim := func(ctx context.Context) (session.ID, error) {
			return s.AllocateIDs(ctx, session.ClaimRequest{MS: session.MS(s.cfg.Clock()), Count: session.MaxClaim})
		}
		wg.Go(func() { s.ids.run(ctx, s.cfg.Interval, s.cfg.Logger, claim) })
		wg.Go(func() { s.upgrades.run(ctx) })
	}
	s.standing.begin(s.clock.look())
	every := s.clock.stalls.interval() / 4
	ticker := s.cfg.Pulse.Ticker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-s.clients.wake:
		}
		if now := s.clock.stalls.interval() / 4; now != every {
			every = now
			ticker.Reset(every)
		}
		now := s.clock.look()
		s.clients.judge(now)
		s.locals.expire(now)
	}
}

// heard takes in a heartbeat of the leader that is followed (R1, M3, S4).
func (s *Server) heard(term uint64, beat *session.Heartbeat) {
	s.pace(beat.Interval)
	if s.beats.hear(term, beat) && !s.clients.well() {
		notify(s.clients.wake)
	}
}

// pace takes the interval of a leader's rounds. It first looks for stalls by the interval that has counted until now.
func (s *Server) pace(interval time.Duration) {
	if interval == s.beats.interval() {
		return
	}
	s.clock.look()
	s.beats.follow(interval)
	if s.clock.stalls.follow(interval) {
		notify(s.clients.wake)
	}
}

// Follow serves one leader over link until the link ends, and returns why it did. One call at a time: a relay has one
// stream (T3).
func (s *Server) Follow(link Link) error {
	r, err := newRelay(s, link)
	if err != nil {
		return err
	}
	s.setRelay(r)
	defer s.setRelay(nil)
	return r.run()
}

// setRelay makes r the way to the leader; nil: there is no leader any more.
func (s *Server) setRelay(r *relay) {
	s.upstream.use(r)
	s.beats.forgetLeader() // before this leader's first heartbeat, after the former one's last
	if r != nil {
		s.ids.refill()
	}
}

// Stop refuses new requests and connections with ErrStopping from now on. Requests under way go on.
func (s *Server) Stop() { s.standing.stopping.Store(true) }

// StepOut is Stop for a node whose state is not to be trusted: promises no longer rest on anything that was confirmed,
// and the link to the leader ends.
func (s *Server) StepOut() {
	s.Stop()
	s.table.dropPromises()
	r := s.upstream.current()
	if r == nil {
		return
	}
	if err := r.link.Close(); err != nil {
		s.cfg.Logger.Debug("ending the link to the leader", "error", err)
	}
}

// Connect begins a connection. Its error is ErrStopping.
func (s *Server) Connect(events session.Events) (session.Connection, error) {
	if s.standing.stopping.Load() {
		return nil, session.ErrStopping
	}
	c := &connection{server: s, unary: events == nil, locals: make(map[session.ID]*local)}
	if events != nil {
		if of, ok := events.(session.Identified); ok {
			c.client = of.Client()
		}
		c.events.Store(&events)
		s.clients.add(c)
	}
	return c, nil
}

// State returns what the node can do now, and the index of what it has shown until now (N4). Once the cluster has begun
// it takes no lock and allocates nothing, and Config.Admitted must not either.
func (s *Server) State() session.NodeState {
	return session.NodeState{
		Node: s.cfg.Node, Mode: s.standing.mode(s.clock.now()), Index: s.view.ShownIndex(),
		Draining: s.standing.drain.on(), Cluster: s.clusterID(),
	}
}

// clusterID returns the identity of the cluster, 0 until the node knows it.
func (s *Server) clusterID() uint64 {
	id := s.cluster.Load()
	if id == 0 {
		id = s.view.Cluster()
		s.cluster.Store(id)
	}
	return id
}

// AllocateIDs claims a block of ids of this node through the leader, and returns the first (O3). After
// session.ErrOutcomeUnknown the block may be claimed, and then nobody uses it: a repeated call claims another block.
func (s *Server) AllocateIDs(ctx context.Context, r session.ClaimRequest) (session.ID, error) {
	return s.upstream.claim(ctx, s.cfg.Node, r)
}

// Sync returns once the node has applied all that was answered before the call (R4).
func (s *Server) Sync(ctx context.Context) error {
	_, err := s.reads.sync(ctx, nil)
	return err
}

// Find returns a session, or an ExpiredError, with the certificate if the node still has it. The read is linearizable:
// it sees everything that was answered before it began (R4). It never answers from an older state than the client has
// seen (N4).
//
// A read-only node answers a client that allows it from the state that it has applied, without the remaining time (N3).
// It marks the answer as such; an error is then a session.AppliedError.
//
// The node answers for its own local sessions from what it holds, since no other node has newer state of them; so it
// does for their ends. While an upgrade is under way other nodes may have newer state (L8). The session is then read
// like one of the log, unless the log does not have it.
func (s *Server) Find(ctx context.Context, id session.ID, o session.ReadOptions) (session.Listed, error) {
	return s.reads.find(ctx, id, o)
}

// List returns one page of the sessions that match a filter: the replicated ones, and the local ones of this node. It
// reads as Find does. A read-only node that is to answer from its applied state refuses a filter by remaining time with
// session.ErrReadOnly: it knows the remaining times of local sessions only.
func (s *Server) List(ctx context.Context, q session.Query) (session.Page, error) {
	return s.reads.list(ctx, q)
}

// Ready returns nil when the node serves: it follows a leader, has heard of a good round lately, has applied what the
// leader had applied an interval ago, and votes (R6). The error says what is missing. The vote is checked last, and
// [ErrNoVote] says that only it is missing.
func (s *Server) Ready() error {
	_, ever := s.beats.quiet(s.clock.now())
	applied := reached{attachment: s.view.Attachment(), index: s.view.AppliedIndex()}
	behind := s.beats.behind(applied)
	switch {
	case s.standing.stopping.Load():
		return session.ErrStopping
	case !s.standing.follows.Load():
		return session.ErrNoLeader
	case !ever || !s.clients.well():
		return fmt.Errorf("no good round since %s", s.beats.lastGood().Format(time.RFC3339Nano))
	case behind != nil:
		return behind
	case !s.beats.hasVote(applied.index):
		return ErrNoVote
	}
	return nil
}

// ErrNoVote says that the node cannot be part of a quorum yet.
var ErrNoVote = errors.New(
	"this node has no vote yet, or not every other voter knows of it: until then no other node may be taken away",
)

// Stats are figures of a [Server].
type Stats struct {
	// Attached sessions, and connections with events.
	Attached, Connections int
	// Local sessions, the ones that have expired and the ones that became global since the node began, and the ids in
	// stock for more.
	Local                       int
	LocalExpired, LocalUpgraded uint64
	LocalIDs                    uint64
	// Stalls of the process or the machine that the node noticed.
	Stalls uint64
	// Jeopardy is set while clients are told that touches may not count (S4).
	Jeopardy bool
	// Watches of the tree that connections have, and what they count in bytes (V1).
	Watches, WatchBytes int
}

// NoRoom reports whether every node is to refuse what adds to the log, as the present leader says: the voters with room
// on their disks are no quorum (O5). It is false without a leader. It takes no lock.
func (s *Server) NoRoom() bool { return s.beats.noRoom.Load() }

// AppliedElsewhere returns the highest index that another voter has applied, as far as leaders have told. It takes no
// lock.
func (s *Server) AppliedElsewhere() uint64 { return s.beats.elsewhere.Load() }

// LocalUsage returns how much the local sessions take of what the capacity bounds.
func (s *Server) LocalUsage() session.Usage { return s.local.used() }

// Stats returns the present figures.
func (s *Server) Stats() Stats {
	sessions, expired, upgraded := s.local.count()
	watches, watchBytes := s.tree.Watches()
	return Stats{
		Attached:      s.table.Len(),
		Local:         sessions,
		LocalExpired:  expired,
		LocalUpgraded: upgraded,
		LocalIDs:      s.ids.left(),
		Connections:   s.clients.count(),
		Stalls:        s.clock.stalls.count(),
		Jeopardy:      !s.clients.well(),
		Watches:       watches,
		WatchBytes:    watchBytes,
	}
}
