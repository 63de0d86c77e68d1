package learner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// Config is what a [Server] needs to know.
type Config struct {
	// Node is this node's number.
	Node session.Node
	// Interval is the heartbeat interval that counts until a leader has told its own (R1).
	Interval time.Duration
	// ExpiryInterval is the width of a bucket of the local sessions' expiry queue; what is too small is raised.
	ExpiryInterval time.Duration
	// Limits clamps the timeouts of local sessions; those of others are the leader's business.
	Limits session.Limits
	// Capacity bounds the local sessions of this node (O4); those of the cluster are the log's business.
	Capacity session.Capacity
	// Local allows local sessions (L1). It is the same on every node of a cluster.
	Local bool
	// Upgrade allows to make local sessions global (L7). It is the same on every node of a cluster.
	Upgrade bool
	// ReadOnly lets the node serve reads of the state it has applied once it has learnt of no good round, while it ran,
	// for longer than ReadOnlyAfter, which is 3 intervals at least (N1).
	ReadOnly      bool
	ReadOnlyAfter time.Duration
	// Admitted reports whether the node may take part in its cluster, and is of it as far as it knows; nil: it is. Safe
	// for concurrent use; it takes no lock and allocates nothing.
	Admitted func() bool
	// LocalChanged, when set, is told of each local session that opens, gets a new attachment or ends here, before its
	// client is; of an open or a resume once more when it is repeated. It must return soon, and is called by several
	// goroutines.
	LocalChanged func(session.Change)
	// Runs, when set, is called before the clocks are looked at, by several goroutines. A test has it not return for
	// a while: then the process did not run, as far as this package can tell.
	Runs func()
	// Clock is the wall clock that ids and certificates of local sessions are dated by; nil is time.Now.
	Clock func() time.Time
	// LaggingWait is how long a request waits for this node to catch up before it is told LAGGING (M5).
	LaggingWait time.Duration
	// Try returns the client addresses of the other nodes, for clients in jeopardy. Safe for concurrent use.
	Try func() []string
	// Judge, when set, is told with each heartbeat what the newest comparison of digests has found, and which digest
	// this node had reported when that was found (D2). It must return soon.
	Judge func(reported session.StateDigest, found session.Comparison)
	// Logger is for changes of state, never for a touch.
	Logger hclog.Logger
}

// reached is how far a node's state has come: its highest attachment, and an index. A leader of a release that does not
// name one has 0.
type reached struct{ attachment, index uint64 }

// Server serves a node's clients for as long as the node runs. It implements session.Service, and is told of applied
// entries (Applied, Restored). Safe for concurrent use.
type Server struct {
	cfg    Config
	view   View
	table  *TouchTable
	stalls *stallDetector
	// standing is what the node's mode follows from.
	standing standing
	// local holds the local sessions: none unless the configuration allows them.
	local *Local
	// low makes refill look at how many ids are left; supplied is told when there are more.
	low      chan struct{}
	supplied *broadcast
	// flights are upgrades that are to be asked of the leader; ended is closed when nobody takes them any more.
	flights chan *flight
	ended   chan struct{}
	// wake makes Run look again: a round was good after jeopardy, or a client came in jeopardy.
	wake chan struct{}
	// advanced is told when the state has applied more.
	advanced *broadcast

	mu sync.Mutex
	// relay is nil while no leader is followed. guarded by mu
	relay *relay
	// leaderAttachment is the highest attachment that the leader followed now has applied; 0 without one (M3). guarded
	// by mu
	leaderAttachment uint64
	// catchUp is what the leader had applied at the stream's first heartbeat, and later an interval or more ago; next
	// is what catchUp will be, noted at nextAt: heartbeats may follow each other at once, and a node is always behind
	// by a commit. guarded by mu
	catchUp, next reached
	nextAt        time.Time
	// goodTerm and goodRound name the newest good round learnt of, and goodAt is when that was. guarded by mu
	goodTerm, goodRound uint64
	goodAt              time.Time
	// votesFrom is what the leader said of this node's vote last; votes is set once the node has applied that, and
	// stays: a leader that has just begun does not know yet. guarded by mu
	votesFrom uint64
	votes     bool
	// noIDs is why no ids can be claimed for local sessions, when a person has to mend it. guarded by mu
	noIDs error
	// health is what clients are told of. guarded by mu
	health health
	// connections are those with events. guarded by mu
	connections map[*connection]struct{}
	// stopping refuses new connections and requests. guarded by mu
	stopping bool
}

// NewServer returns a server of the state behind view. Its process vouches for its clients from now on (E1).
func NewServer(cfg Config, view View) *Server {
	now := time.Now()
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s := &Server{
		cfg:         cfg,
		view:        view,
		table:       NewTouchTable(now),
		low:         make(chan struct{}, 1),
		supplied:    newBroadcast(),
		flights:     make(chan *flight),
		ended:       make(chan struct{}),
		wake:        make(chan struct{}, 1),
		advanced:    newBroadcast(),
		goodAt:      now,
		connections: make(map[*connection]struct{}),
	}
	s.standing.interval.Store(int64(cfg.Interval))
	s.stalls = newStallDetector(cfg.Interval, instant{wall: now.Round(0)}, s.table.dropPromises)
	s.local = newLocal(cfg.Node, cfg.ExpiryInterval, s.stalls.suspendedSince)
	s.local.usage.Capacity = cfg.Capacity
	return s
}

// Run looks for stalls, tells clients of jeopardy, ends local sessions that are due and keeps ids for more, until ctx
// ends.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.Local {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { s.refill(ctx) })
		wg.Go(func() { s.fly(ctx) })
	}
	s.standing.begin(s.look())
	every := s.stalls.interval() / 4
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-s.wake:
		}
		if now := s.stalls.interval() / 4; now != every {
			every = now
			ticker.Reset(every)
		}
		now := s.look()
		s.judge(now)
		s.expireLocal(now)
	}
}

// look looks for stalls: before every promise, and while answering (E1, S5). It returns the moment, on the table's
// clock.
func (s *Server) look() time.Duration {
	if s.cfg.Runs != nil {
		s.cfg.Runs()
	}
	now := time.Now()
	moment := now.Sub(s.table.base)
	if s.stalls.look(instant{mono: moment, wall: now.Round(0)}) {
		s.cfg.Logger.Warn("the machine was suspended: promises were dropped")
	}
	return moment
}

// heard takes in a heartbeat of the leader that is followed (R1, M3, S4).
func (s *Server) heard(term uint64, beat *session.Heartbeat) {
	s.pace(beat.Interval)
	s.mu.Lock()
	s.leaderAttachment = max(s.leaderAttachment, beat.Attachment)
	s.votesFrom = beat.VotesFrom
	leads := reached{s.leaderAttachment, beat.Compare}
	if now := time.Now(); s.nextAt.IsZero() {
		s.catchUp, s.next, s.nextAt = leads, leads, now
	} else if now.Sub(s.nextAt) >= s.interval() {
		s.catchUp, s.next, s.nextAt = s.next, leads, now
	}
	if beat.Good == 0 || term < s.goodTerm || term == s.goodTerm && beat.Good <= s.goodRound {
		s.mu.Unlock()
		return
	}
	s.goodTerm, s.goodRound, s.goodAt = term, beat.Good, time.Now()
	s.standing.heardGood(s.goodAt.Sub(s.table.base))
	wake := s.health != healthy
	s.mu.Unlock()
	if wake {
		notify(s.wake)
	}
}

// pace takes the interval of a leader's rounds, 0 of one that does not tell it. What this node did not run for until
// now is judged by what was known until now.
func (s *Server) pace(interval time.Duration) {
	if interval == 0 {
		interval = s.cfg.Interval
	}
	if interval == s.interval() {
		return
	}
	s.look()
	s.standing.interval.Store(int64(interval))
	if s.stalls.follow(interval) {
		notify(s.wake)
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

func (s *Server) setRelay(r *relay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relay = r
	s.standing.follows.Store(r != nil)
	s.leaderAttachment, s.catchUp, s.next, s.nextAt = 0, reached{}, reached{}, time.Time{}
	if r != nil {
		notify(s.low)
	}
}

// ask sends a request to the leader. A read-only node asks for nothing but reads, whoever wants it: session.ErrReadOnly
// says that nothing was done (N2).
func (s *Server) ask(ctx context.Context, request session.Request) (session.Reply, error) {
	s.mu.Lock()
	r, stopping := s.relay, s.stopping
	s.mu.Unlock()
	switch {
	case stopping:
		return session.Reply{}, session.ErrStopping
	case request.Read == nil && s.readOnly():
		return session.Reply{}, session.ErrReadOnly
	case r == nil:
		return session.Reply{}, session.ErrNoLeader
	}
	return r.do(ctx, request)
}

// Stop refuses what comes from now on with ErrStopping. What is under way goes on.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	s.standing.stopping.Store(true)
}

// StepOut is Stop for a node whose state is not to be trusted: nothing that was ever confirmed counts for a promise any
// more, and the link to the leader ends.
func (s *Server) StepOut() {
	s.Stop()
	s.table.dropPromises()
	s.mu.Lock()
	r := s.relay
	s.mu.Unlock()
	if r == nil {
		return
	}
	if err := r.link.Close(); err != nil {
		s.cfg.Logger.Debug("ending the link to the leader", "error", err)
	}
}

// Connect begins a connection. Its error is ErrStopping.
func (s *Server) Connect(events session.Events) (session.Connection, error) {
	c := &connection{
		server: s, events: events, sessions: make(map[session.ID]*attached), locals: make(map[session.ID]*local),
	}
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return nil, session.ErrStopping
	}
	if events != nil {
		s.connections[c] = struct{}{}
	}
	tell := s.health != healthy && events != nil
	s.mu.Unlock()
	if tell {
		notify(s.wake)
	}
	return c, nil
}

func (s *Server) disconnect(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.connections, c)
}

// Ready returns nil when the node serves: it follows a leader, heard of a good round lately, and has applied what the
// leader had an interval ago, and votes (R6). The error says why not; the last of these is [ErrNoVote].
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return session.ErrStopping
	case s.relay == nil:
		return session.ErrNoLeader
	case s.goodRound == 0 || s.health != healthy:
		return fmt.Errorf("no good round since %s", s.goodAt.Format(time.RFC3339Nano))
	case s.view.Attachment() < s.catchUp.attachment:
		return fmt.Errorf("catching up: has applied attachment %d of %d", s.view.Attachment(), s.catchUp.attachment)
	case s.view.AppliedIndex() < s.catchUp.index:
		return fmt.Errorf("catching up: has applied index %d of %d", s.view.AppliedIndex(), s.catchUp.index)
	case !s.hasVote():
		return ErrNoVote
	}
	return nil
}

// ErrNoVote says that the node would be none of a quorum yet.
var ErrNoVote = errors.New(
	"this node has no vote yet, or not every other voter knows of it: until then no other node may be taken away",
)

// hasVote reports whether this node votes, and every other voter knows that, as far as the leader says (R6). Called
// with mu held.
func (s *Server) hasVote() bool {
	s.votes = s.votes || s.votesFrom != session.NoVote && s.view.AppliedIndex() >= s.votesFrom
	return s.votes
}

// Stats are figures of a [Server].
type Stats struct {
	// Attached sessions, and connections with events.
	Attached, Connections int
	// Local sessions, those that have expired, those that became global, and the ids in stock for more.
	Local                       int
	LocalExpired, LocalUpgraded uint64
	LocalIDs                    uint64
	// Stalls of the process or the machine that were noticed.
	Stalls uint64
	// Jeopardy is set while clients are told that touches may not count.
	Jeopardy bool
}

// LocalUsage returns how much there is of what the capacity bounds for local sessions.
func (s *Server) LocalUsage() session.Usage { return s.local.used() }

// Stats returns the present figures.
func (s *Server) Stats() Stats {
	sessions, expired, upgraded := s.local.count()
	ids := s.local.poolSize()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Attached:      s.table.Len(),
		Local:         sessions,
		LocalExpired:  expired,
		LocalUpgraded: upgraded,
		LocalIDs:      ids,
		Connections:   len(s.connections),
		Stalls:        s.stalls.count(),
		Jeopardy:      s.health != healthy,
	}
}
