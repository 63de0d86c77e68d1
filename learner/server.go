// Package learner is the part of every node that serves the node's own clients: it serves their connections, keeps
// their touches, and reports the touches to the leader. The leader does so too, over a link to itself.
//
// A [Server] lives as long as its node. It holds the [TouchTable] and the connections, and implements session.Service.
// A relay serves exactly one leader, over one [Link]. A relay ends with its link, and the node then passes the server a
// new link.
//
//	client touch --> connection --> TouchTable                      one short lock, no allocation, no network
//	heartbeat    --> relay: swap the table, read h, drop moved sessions (T1 atomic swap) --> answer
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

	"holdfast/learner/local"
	treeservice "holdfast/learner/tree"
	"holdfast/learner/tree/pending"
	"holdfast/session"
)

// Config configures a [Server].
type Config struct {
	// Node is this node's number.
	Node session.Node
	// Tree is the initial tree of the state.
	Tree TreeState
	// Interval is the heartbeat interval until a leader sends its own (R1 rounds).
	Interval time.Duration
	// Pulse aligns the checks for stalls with other tickers of the node.
	Pulse session.Pulse
	// ExpiryInterval is the width of a bucket of the local sessions' expiry queue. The server raises a smaller value to
	// session.MinExpiryInterval.
	ExpiryInterval time.Duration
	// Limits clamps the timeouts of local sessions. The leader clamps those of global sessions.
	Limits session.Limits
	// Capacity bounds the local sessions of this node (O4 state limits). The log bounds the global ones.
	Capacity session.Capacity
	// Local allows local sessions (L1 local to one node). It is the same on every node of a cluster.
	Local bool
	// Upgrade allows clients to make local sessions global (L7 upgrade). It is the same on every node of a cluster.
	Upgrade bool
	// ReadOnly lets the node serve reads of its applied state after it has run for longer than ReadOnlyAfter without
	// learning of a good round. ReadOnlyAfter counts as at least 3 intervals (N1 node mode).
	ReadOnly      bool
	ReadOnlyAfter time.Duration
	// Admitted reports whether the node may take part in its cluster, as far as it knows; a nil Admitted means yes. It
	// must be safe for concurrent use, take no lock and allocate nothing.
	Admitted func() bool
	// LocalChanged, when set, is called for each local session that opens, gets a new attachment or ends here, before
	// the client gets its answer, and again for a repeated open or resume. LocalChanged must return soon; several
	// goroutines call it.
	LocalChanged func(session.Change)
	// Runs, when set, is called before the server reads the clocks, by several goroutines. A test blocks it for a while
	// to stall the server: to this package the process then seems not to have run.
	Runs func()
	// Clock is the wall clock that dates the ids and certificates of local sessions; nil is time.Now.
	Clock func() time.Time
	// CatchUpWait is the time that a request waits for this node to catch up before the answer is LAGGING (M5 lagging,
	// not expired).
	CatchUpWait time.Duration
	// Try returns the client addresses of the other nodes, for clients in jeopardy. Safe for concurrent use.
	Try func() []string
	// FullDisk, when set, reports whether the node's disk is full (O5 full disks). It must be safe for concurrent use
	// and return at once.
	FullDisk func() bool
	// Writes, when set, replace the writes of the server's own clients as the writes for the leader.
	Writes PendingWrites
	// WatchLimits bounds the memory that the server needs for watches.
	WatchLimits WatchLimits
	// Pending bounds the pending writes; the zero value is [pending.DefaultLimits].
	Pending pending.Limits
	// OnComparison, when set, is called for each heartbeat, with the result of the newest comparison of digests and the
	// digest that this node had reported before that comparison (C2 a quorum decides). It must return soon.
	OnComparison func(reported session.StateDigest, found session.Comparison)
	// Logger gets changes of state, never a touch.
	Logger hclog.Logger
}

// Server serves a node's clients for as long as the node runs. It implements session.Service. Safe for concurrent use.
//
// The server itself only connects its parts. Each part has a lock of its own or none. The relay passes each heartbeat
// to Server.recordHeartbeat.
type Server struct {
	cfg  Config
	view View

	// clients informs clients of the node's health.
	clients *clients
	// local holds the local sessions, none unless the configuration allows them. locals serves requests about them.
	local  *local.Table
	locals *local.Service
	// reads answers Find and List.
	reads *reader
	// upstream sends requests to the leader.
	upstream *upstream
	// registry knows the sessions that are not served here.
	registry *registry
	// modeFacts decides the node's mode.
	modeFacts *modeFacts
	// beats is what the node knows from heartbeats.
	beats *heartbeats
	// wait makes requests wait for the node's own state.
	wait  *applyWait
	clock *clock
	table *TouchTable
	// confirmations has the touches that wait for confirmation.
	confirmations *confirmations
	// tree serves the tree.
	tree *treeservice.Service
	// takeOvers are the recent take-overs of all sessions, including sessions that this node serves only later (M7 no
	// take-over from a living holder).
	takeOvers session.TakeOvers
	// expiries logs expired sessions.
	expiries *expiryLog
	// cluster is the identity of the cluster, once the view knows it.
	cluster atomic.Uint64
}

// NewServer returns a server of the state behind view. The process counts as running from now on (E1 full timeout after
// a change of leader).
func NewServer(cfg Config, view View) *Server {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s := &Server{cfg: cfg, view: view, table: NewTouchTable(), expiries: &expiryLog{logger: cfg.Logger}}
	s.clock = newClock(&cfg, time.Now(), s.table.dropPromises)
	s.local = local.NewTable(local.TableConfig{
		Node: cfg.Node, Interval: cfg.ExpiryInterval, Capacity: cfg.Capacity,
		SuspendedSince: s.clock.stalls.suspendedSince,
	})
	s.wait = newApplyWait(&cfg, view)
	s.beats = newHeartbeats(cfg.Interval, s.clock.base)
	s.confirmations = newConfirmations(s.table, s.beats, s.clock)
	s.modeFacts = newModeFacts(&cfg, s.beats, s.clock, view)
	s.registry = &registry{node: cfg.Node, locals: cfg.Local, view: view, local: s.local, wait: s.wait}
	s.upstream = &upstream{modeFacts: s.modeFacts}
	s.reads = &reader{
		view: view, clock: s.clock, modeFacts: s.modeFacts, wait: s.wait, local: s.local, registry: s.registry,
		upstream: s.upstream,
	}
	s.locals = local.NewService(local.Config{
		Node: cfg.Node, Allowed: cfg.Local, Upgrade: cfg.Upgrade, Limits: cfg.Limits, Interval: cfg.Interval,
		Wait: cfg.CatchUpWait, Logger: cfg.Logger,
	}, s.local, localNode{s}, localClock{s.clock, cfg.Clock})
	s.clients = newClients(&cfg, s.beats, s.modeFacts)
	s.tree = treeservice.New(treeservice.Config{
		Node: treeNode{s}, Wait: cfg.CatchUpWait, Pulse: cfg.Pulse, Hub: cfg.WatchLimits.hub(), Limits: cfg.WatchLimits.limits(),
		Budgets: cfg.WatchLimits.budgets(), Pending: cfg.Pending, Tree: cfg.Tree,
	})
	if s.cfg.Writes == nil {
		s.cfg.Writes = s.tree
	}
	return s
}

// Run detects stalls, informs clients of jeopardy, continues requests whose entries this node has applied, ends due
// local sessions and keeps ids for more, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.wait.queue.run(ctx) })
	wg.Go(func() { s.confirmations.run(ctx) })
	wg.Go(func() { s.tree.Run(ctx) })
	if s.cfg.Local {
		wg.Go(func() { s.locals.Run(ctx) })
	}
	s.modeFacts.begin(s.clock.checkedNow())
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
		now := s.clock.checkedNow()
		s.clients.updateHealth(now)
		s.locals.Expire(now)
	}
}

// recordHeartbeat processes a heartbeat of the present leader (R1, M3 served in the leader's term, S4 jeopardy).
func (s *Server) recordHeartbeat(term uint64, beat *session.Heartbeat) {
	s.pace(beat.Interval)
	if s.beats.record(term, beat) && !s.clients.well() {
		notify(s.clients.wake)
	}
}

// pace adopts the interval of a leader's rounds. First it checks for stalls with the interval in force until now.
func (s *Server) pace(interval time.Duration) {
	if interval == s.beats.interval() {
		return
	}
	s.clock.checkedNow()
	s.beats.follow(interval)
	if s.clock.stalls.follow(interval) {
		notify(s.clients.wake)
	}
}

// Follow serves one leader over link until the link ends, and returns the reason. Only one call at a time: a relay has
// one stream (T3 ordered streams).
func (s *Server) Follow(link Link) error {
	r, err := newRelay(s, link)
	if err != nil {
		return err
	}
	s.setRelay(r)
	defer s.setRelay(nil)
	return r.run()
}

// setRelay makes r the relay to the leader; nil means that there is no leader.
func (s *Server) setRelay(r *relay) {
	s.upstream.use(r)
	s.beats.forgetLeader() // before this leader's first heartbeat, after the former leader's last
	if r != nil {
		s.locals.Refill()
	}
}

// Stop refuses new requests and connections with ErrStopping from now on. Running requests continue.
func (s *Server) Stop() { s.modeFacts.stopping.Store(true) }

// StepOut stops like Stop, for a node whose state cannot be trusted: no promise rests any longer on a confirmed touch,
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
	if s.modeFacts.stopping.Load() {
		return nil, session.ErrStopping
	}
	c := &connection{server: s, unary: events == nil, locals: make(map[session.ID]*local.Session)}
	if events != nil {
		if of, ok := events.(session.Identified); ok {
			c.client = of.Client()
		}
		c.events.Store(&events)
		s.clients.add(c)
	}
	return c, nil
}

// State returns the node's mode and the index of the newest state that it has shown (N4 seen index). Once the cluster
// has begun State takes no lock and allocates nothing, and Config.Admitted must not either.
func (s *Server) State() session.NodeState {
	return session.NodeState{
		Node: s.cfg.Node, Mode: s.modeFacts.mode(s.clock.now()), Index: s.view.ShownIndex(),
		Draining: s.modeFacts.drain.on(), Cluster: s.clusterID(),
	}
}

// clusterID returns the identity of the cluster, 0 while the node does not know it.
func (s *Server) clusterID() uint64 {
	id := s.cluster.Load()
	if id == 0 {
		id = s.view.Cluster()
		s.cluster.Store(id)
	}
	return id
}

// AllocateIDs claims a block of ids of this node through the leader, and returns the first (O3 id blocks). After
// session.ErrOutcomeUnknown the block may be claimed, and is unused: a repeated call claims another block.
func (s *Server) AllocateIDs(ctx context.Context, r session.ClaimRequest) (session.ID, error) {
	return s.upstream.claim(ctx, s.cfg.Node, r)
}

// Sync returns once the node has applied everything that was committed when the call began (R4 leadership needs a good
// round).
func (s *Server) Sync(ctx context.Context) error {
	_, err := s.reads.sync(ctx, nil)
	return err
}

// Find returns a session, or an ExpiredError, with the certificate if the node still has it. The read is linearizable:
// it sees everything that was answered before it began (R4). It never answers from an older state than the client has
// seen (N4).
//
// If the client allows that, a read-only node answers from its applied state, without the remaining time (N3 stale
// reads). It marks the answer as such; an error is then a session.AppliedError.
//
// The node answers reads of its local sessions and their ends from memory, because no other node has newer state of
// local sessions. During an upgrade other nodes may have newer state (L8 one upgrade at a time). The session is then
// read like one of the log, unless the log does not have it.
func (s *Server) Find(ctx context.Context, id session.ID, o session.ReadOptions) (session.Listed, error) {
	return s.reads.find(ctx, id, o)
}

// List returns one page of the sessions that match a filter: the replicated sessions, and the local sessions of this
// node. It reads as Find does. A read-only node that must answer from its applied state refuses a filter by remaining
// time with session.ErrReadOnly: it knows the remaining times of local sessions only.
func (s *Server) List(ctx context.Context, q session.Query) (session.Page, error) {
	return s.reads.list(ctx, q)
}

// Ready returns nil when the node serves: it follows a leader, has learned of a good round lately, has applied what the
// leader had applied an interval ago, and votes (R6 readiness). The error names the missing condition. The vote is
// checked last, and [ErrNoVote] means that only the vote is missing.
func (s *Server) Ready() error {
	_, ever := s.beats.quiet(s.clock.now())
	applied := reached{attachment: s.view.Attachment(), index: s.view.AppliedIndex()}
	behind := s.beats.behind(applied)
	switch {
	case s.modeFacts.stopping.Load():
		return session.ErrStopping
	case !s.modeFacts.follows.Load():
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
	"this node is not a voter yet, or another voter does not know this yet: stop or remove no other node before",
)

// Stats are a [Server]'s figures.
type Stats struct {
	// Attached is the number of sessions attached here, Connections that of connections with events.
	Attached, Connections int
	// Local is the number of local sessions, LocalExpired and LocalUpgraded the numbers of local sessions that have
	// expired and become global since the node began, and LocalIDs the number of ids in stock for more.
	Local                       int
	LocalExpired, LocalUpgraded uint64
	LocalIDs                    uint64
	// Stalls is the number of stalls of the process or the machine that the node detected.
	Stalls uint64
	// Jeopardy is set while clients know that touches may not count (S4).
	Jeopardy bool
	// Watches is the number of the connections' watches of the tree, WatchBytes their size in bytes (V1 kinds of
	// watches).
	Watches, WatchBytes int
}

// DisksFull reports whether every node must refuse requests that add to the log, according to the present leader: the
// voters with space on their disks are no quorum (O5). It is false without a leader. It takes no lock.
func (s *Server) DisksFull() bool { return s.beats.disksFull.Load() }

// AppliedElsewhere returns the highest index that another voter has applied, as far as leaders have reported. It takes
// no lock.
func (s *Server) AppliedElsewhere() uint64 { return s.beats.elsewhere.Load() }

// LocalUsage returns the local sessions' use of the capacity.
func (s *Server) LocalUsage() session.Usage { return s.local.Usage() }

// Stats returns the present figures.
func (s *Server) Stats() Stats {
	locals := s.local.Counts()
	watches, watchBytes := s.tree.Watches()
	return Stats{
		Attached:      s.table.Len(),
		Local:         locals.Sessions,
		LocalExpired:  locals.Expired,
		LocalUpgraded: locals.Upgraded,
		LocalIDs:      s.local.IDs(),
		Connections:   s.clients.count(),
		Stalls:        s.clock.stalls.count(),
		Jeopardy:      !s.clients.well(),
		Watches:       watches,
		WatchBytes:    watchBytes,
	}
}
