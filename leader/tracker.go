package leader

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// Config configures a [Tracker].
type Config struct {
	// Node is the leader's own number.
	Node session.Node
	// Term is the term of the entry with which the leader began the term (R5 start of a tracker).
	Term uint64
	// After is the newest round of an earlier tracker of this node in the same term; 0 for none. Rounds continue from
	// it: a learner identifies a round by its term and number, and only a higher number is new to it (S4 jeopardy).
	After uint64
	// Interval is the time between two rounds; 0 means 500 ms. It should exceed the round-trip time between the nodes.
	// It becomes shorter in a term with a session whose timeout is at most three intervals (R1 rounds).
	Interval time.Duration
	// ExpiryInterval is the width of a bucket of the expiry queue. 0 means [session.DefaultExpiryInterval]; smaller
	// values are raised to [session.MinExpiryInterval].
	ExpiryInterval time.Duration
	// Limits clamps the timeouts of new sessions.
	Limits session.Limits
	// CheckCapacity returns a [session.LimitError] if the state that this node has applied has no space for a command's
	// additions (O4 state limits). It must be safe for concurrent use and return at once. Nil means unlimited space.
	CheckCapacity func(session.Command) error
	// Part returns an index, at most upTo, such that forgetting the request ids up to this index forgets about limit
	// request ids of the state that this node has applied. It must be safe for concurrent use and return at once. Nil
	// means upTo itself.
	Part func(upTo uint64, limit int) uint64
	// Writes has the functions for writes to the tree.
	Writes Writes
	// Tree has the functions for the tree.
	Tree Tree
	// Logger gets rare events. Nil means no log.
	Logger hclog.Logger
	// Clock is the wall clock that dates ids and certificates (O1 ids from the log); nil means time.Now. Deadlines do
	// not depend on it.
	Clock func() time.Time
	// Ask, if set, asks a node for its directory and its newest stream, at the address where this node dials it. ok is
	// false if the node does not answer. A stream waits for the call, which must return when ctx ends (T6 newest stream
	// only).
	Ask func(ctx context.Context, node session.Node) (newest session.Hello, ok bool)
	// OnAnswer, if set, is called when a node's complete answer to a heartbeat has arrived and its touches are
	// recorded, before the answer has any other effect. sent is the time when the heartbeat was sent. OnAnswer must
	// return soon.
	OnAnswer func(from session.Node, sent time.Time)
	// Expires, if set, is called with sessions that were just found expired, before their close is proposed (E3 ordered
	// closes). late has, in no order, the time on the accountable clock since each session was due. Expires must return
	// soon, and keep neither slice.
	Expires func(found []session.Closing, late []time.Duration)
}

const defaultInterval = 500 * time.Millisecond

// Tracker leads one term: it runs the rounds, keeps the deadlines, ends sessions and answers the learners' requests.
// Its methods are safe for concurrent use.
//
// Locks: each part guards its own state. A goroutine holds at most one of the mutexes of [heartbeats] and the shards,
// and holds none across a call into another package or a send.
type Tracker struct {
	cfg    Config
	view   View
	logger hclog.Logger
	stats  counters
	// wake wakes Run: an answer arrived, a reader waits, a close was decided, a stream ended, rounds became more
	// frequent, or the queue is filled.
	wake       signal
	term       *term
	heartbeats *heartbeats
	registry   *registry
	closer     *closer
	forgetter  *forgetter
	requests   *requests
	forwards   forwards
}

// New returns the tracker of a term, whose clock starts now. It starts no goroutine: [Tracker.Run] does. Register the
// tracker with the state machine before you freeze the copy for Run, so that the tracker misses no entry.
func New(cfg Config, log Log, view View) *Tracker {
	cfg.setDefaults()
	t := &Tracker{cfg: cfg, view: view, logger: cfg.Logger, wake: newSignal()}
	t.term = newTerm(cfg.Term, view)
	t.heartbeats = newHeartbeats(&t.cfg, t.term, view, &t.stats, t.wake)
	t.registry = newRegistry(cfg.ExpiryInterval, t.heartbeats)
	wall := &wallClock{now: cfg.Clock, logger: cfg.Logger, term: cfg.Term}
	t.closer = &closer{
		log: log, term: t.term, heartbeats: t.heartbeats, registry: t.registry, wall: wall, stats: &t.stats,
		left: t.cfg.Tree.Weight,
	}
	t.forgetter = &forgetter{
		log: log, term: t.term, heartbeats: t.heartbeats, registry: t.registry, logger: cfg.Logger,
		timeout: cfg.Limits.Max, margin: 4 * cfg.Interval, part: cfg.Part,
		opens: openMarks{width: max(cfg.Limits.Max/8, cfg.Interval)},
	}
	t.requests = &requests{
		cfg: &t.cfg, log: log, view: view, term: t.term, heartbeats: t.heartbeats, registry: t.registry,
		closer: t.closer, wall: wall, stats: &t.stats,
		takeOvers: &takeOvers{heartbeats: t.heartbeats, logger: t.logger, stats: &t.stats},
	}
	return t
}

// setDefaults fills in unset fields, and names the logger.
func (c *Config) setDefaults() {
	if c.Interval <= 0 {
		c.Interval = defaultInterval
	}
	if c.ExpiryInterval == 0 {
		c.ExpiryInterval = session.DefaultExpiryInterval
	}
	c.ExpiryInterval = max(c.ExpiryInterval, session.MinExpiryInterval)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	c.Logger = c.Logger.Named("leader")
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.CheckCapacity == nil {
		c.CheckCapacity = func(session.Command) error { return nil }
	}
	if c.Part == nil {
		c.Part = func(upTo uint64, _ int) uint64 { return upTo }
	}
	if c.Tree.Weight == nil {
		c.Tree.Weight = func(session.ID) int { return 0 }
	}
}

// Run leads until ctx ends or the term is over. The error is ctx's, [ErrTermOver] or [ErrRestored]. It serves while it
// fills the queue from frozen, and returns when all its goroutines have ended. Call it once.
func (t *Tracker) Run(ctx context.Context, frozen Sessions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.heartbeats.updateFreezes(&t.cfg.Tree)
	var wg sync.WaitGroup
	wg.Go(func() { t.fill(ctx, frozen) })
	wg.Go(func() { t.forgetter.run(ctx, t.view.CommitIndex()) })
	wg.Go(func() { t.reap(ctx) })
	err := t.lead(ctx)
	t.term.end(err)
	cancel()
	wg.Wait()
	t.requests.handlers.stop()
	return t.term.reason
}

// Restored ends the term: the tracker's knowledge belongs to another state. It implements the state machine's observer.
func (t *Tracker) Restored() { t.term.end(ErrRestored) }

// Applied applies the changes of an entry. It implements the state machine's observer: the goroutine that applies
// entries calls it in the order of the log, and it returns soon.
func (t *Tracker) Applied(index, _ uint64, changes []session.Change) {
	t.heartbeats.updateFreezes(&t.cfg.Tree)
	if len(changes) == 0 {
		return
	}
	now := t.heartbeats.now()
	opened := false
	for i := range changes {
		t.registry.apply(&changes[i], now)
		t.requests.takeOvers.recent.Note(&changes[i], now)
		opened = opened || changes[i].Kind == session.Opened
	}
	if opened {
		t.forgetter.opened(index, now)
	}
}

// lead runs rounds and expiry until the term is over.
func (t *Tracker) lead(ctx context.Context) error {
	x := t.expirer()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if t.term.current(); t.term.isOver() {
			return t.term.reason
		}
		t.heartbeats.reconfigure()
		t.heartbeats.checkRound()
		x.poll()
		timer.Reset(t.heartbeats.begin(x.wants))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.term.over:
			return t.term.reason
		case <-timer.C:
		case <-t.wake:
		}
	}
}

// expirer returns the expirer of a Run.
func (t *Tracker) expirer() *expirer {
	return &expirer{
		heartbeats: t.heartbeats, registry: t.registry, closer: t.closer, found: t.cfg.Expires,
		term: t.term.number, logger: t.logger, stats: &t.stats, wake: t.wake, tree: &t.cfg.Tree,
	}
}

// fill files the sessions of the frozen copy while the tracker serves.
func (t *Tracker) fill(ctx context.Context, frozen Sessions) {
	goesOn := func() bool { return !t.term.isOver() && ctx.Err() == nil }
	if !t.registry.fill(frozen, goesOn, func(n int) { t.stats.filled.Add(uint64(n)) }) {
		return
	}
	took := t.heartbeats.mono()
	t.stats.fillTime.Store(int64(max(took, 1)))
	t.wake.set()
	t.logger.Info("expiry queue filled", "sessions", t.stats.filled.Load(), "took", took, "term", t.term.number)
}

// RunningClock returns the running clock of the log (D3 log clock, Y3 freeze). It runs with the accountable clock of
// the term (A1 accountable clock), so it never runs ahead. It may be called during a proposal.
func (t *Tracker) RunningClock() time.Duration { return t.cfg.Tree.RunningClock + t.heartbeats.now() }

// Follows reports whether a node has a stream open to this tracker.
func (t *Tracker) Follows(node session.Node) bool { return t.heartbeats.follows(node) }

// Newest returns the number of the newest round that has begun, see [Config.After].
func (t *Tracker) Newest() uint64 { return t.heartbeats.newest() }

// Good returns the number of the newest good round, 0 before the first (R3 good rounds).
func (t *Tracker) Good() uint64 { return t.heartbeats.good() }
