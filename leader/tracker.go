package leader

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// Config is what a [Tracker] is made with.
type Config struct {
	// Node is the leader's own number.
	Node session.Node
	// Term is that of the entry with which the leader began it (R5).
	Term uint64
	// After is the newest round of a tracker that this node had in the same term before, else 0. Rounds are numbered on
	// from there: to learners a round is its term and number, and only a higher one is news (S4).
	After uint64
	// Interval is between two rounds; 0 is 500 ms. It should be above the round-trip time between the nodes. In a term
	// with a session whose timeout is not above three of it, it is shorter (R1).
	Interval time.Duration
	// ExpiryInterval is the width of a bucket of the expiry queue; 0 is [session.DefaultExpiryInterval], and anything
	// below [session.MinExpiryInterval] is raised to that.
	ExpiryInterval time.Duration
	// Limits clamps the timeouts of sessions that are opened.
	Limits session.Limits
	// Room returns why there is no room for what a command would add, a [session.LimitError], as this node has applied
	// it (O4). Safe for concurrent use; it returns at once. Nil: there is room.
	Room func(session.Command) error
	// Written, when set, returns the newest form of log entries that this node has applied ([session.LogVersion]):
	// every member reads that one. Safe for concurrent use; it returns at once.
	Written func() uint32
	// Logger is told of what is rare. Nil: nothing is logged.
	Logger hclog.Logger
	// Clock is the wall clock that ids and certificates are dated by (O1); nil is time.Now. Deadlines do not depend on
	// it.
	Clock func() time.Time
	// Ask, when set, asks a node itself, where this one dials it, for its directory and its newest stream: false when
	// it cannot be asked. It is called while a stream waits, and returns when ctx ends (T6).
	Ask func(ctx context.Context, node session.Node) (newest session.Hello, ok bool)
	// Heard, when set, is told that the whole answer of a node to a heartbeat has been taken in, with the moment at
	// which that heartbeat was sent: before the answer counts for anything but the touches in it. It must return soon.
	Heard func(from session.Node, sent time.Time)
	// Expires, when set, is told which sessions were just found expired, before that is proposed (E3). It must return
	// soon.
	Expires func(found []session.Closing)
}

const defaultInterval = 500 * time.Millisecond

// Tracker leads one term: it runs the rounds, keeps the deadlines, ends sessions and answers the learners' requests.
// Its methods are safe for concurrent use.
//
// Locks: mu guards the rounds and the clock, each shard's mu its sessions. Neither is held while the other is taken,
// nor across a call into another package or a send.
type Tracker struct {
	cfg    Config
	log    Log
	view   View
	logger hclog.Logger
	start  time.Time

	shards [shardCount]shard
	stats  counters
	opens  openMarks
	looks  atomic.Uint64
	// ahead has a mark for each number of a node whose clock was seen to be ahead.
	ahead [1 << 8]atomic.Bool
	// kick wakes Run: a round became good, a reader waits, a close was decided, a member was lost.
	kick chan struct{}
	// over is closed when the term is over, after reason was set.
	over   chan struct{}
	ending sync.Once
	reason error

	// interval is the one that rounds begin at now, written with mu held. longest is the longest timeout of a session
	// that the tracker has known.
	interval, longest atomic.Int64

	mu     sync.Mutex
	clock  clock   // guarded by mu
	rounds *rounds // guarded by mu
	// regular is when the next round begins that nobody asked for, monotonic. Guarded by mu.
	regular time.Duration
	// looked is the newest look at the configuration that was taken. Guarded by mu.
	looked uint64
	// wanted is the number of the newest round that somebody waits for. Guarded by mu.
	wanted uint64
	// turned is closed and replaced when a round becomes good. Guarded by mu.
	turned chan struct{}
	// closed says that no handler may be started any more; handlers counts those that run. Guarded by mu.
	closed   bool
	handlers sync.WaitGroup
}

// New returns the tracker of a term, whose clock starts now. Nothing runs before [Tracker.Run] is called. It must be
// registered with the state machine before the copy is frozen that Run gets.
func New(cfg Config, log Log, view View) *Tracker {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.ExpiryInterval == 0 {
		cfg.ExpiryInterval = session.DefaultExpiryInterval
	}
	cfg.ExpiryInterval = max(cfg.ExpiryInterval, session.MinExpiryInterval)
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Room == nil {
		cfg.Room = func(session.Command) error { return nil }
	}
	if cfg.Written == nil {
		cfg.Written = func() uint32 { return 0 }
	}
	t := &Tracker{
		cfg: cfg, log: log, view: view, logger: cfg.Logger.Named("leader"),
		start:  time.Now(),
		kick:   make(chan struct{}, 1),
		over:   make(chan struct{}),
		turned: make(chan struct{}),
		clock:  clock{limit: 2 * cfg.Interval},
		rounds: newRounds(cfg.Term, cfg.Interval, cfg.After),
	}
	t.interval.Store(int64(cfg.Interval))
	for i := range t.shards {
		q, err := session.NewExpiryQueue[held](cfg.ExpiryInterval)
		if err != nil {
			panic(err) // the interval was raised above
		}
		t.shards[i].queue, t.shards[i].ended = q, make(map[session.ID]struct{})
	}
	t.opens.width = max(cfg.Limits.Max/8, cfg.Interval)
	members := view.Members()
	t.rounds.configure(members, view.LastIndex(), 0)
	return t
}

// Run leads until ctx ends or the term is over. The error then is ctx's, [ErrTermOver], or [ErrRestored]. It fills the
// queue from frozen while it serves, and returns when all that it started has ended. Call it once.
func (t *Tracker) Run(ctx context.Context, frozen Sessions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { t.fill(ctx, frozen) })
	wg.Go(func() { t.forget(ctx) })
	err := t.lead(ctx)
	t.end(err)
	cancel()
	wg.Wait()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.handlers.Wait()
	return t.reason
}

// Restored ends the term: what the tracker knows is about another state. It implements the state machine's observer.
func (t *Tracker) Restored() { t.end(ErrRestored) }

// end ends the term with the first reason it is given.
func (t *Tracker) end(reason error) {
	t.ending.Do(func() {
		t.reason = reason
		close(t.over)
	})
}

// current reports whether the node's own term still is the tracker's; if not, the term is over (R3).
func (t *Tracker) current() bool {
	term := t.view.Term()
	if term > t.cfg.Term {
		t.end(fmt.Errorf("own node is in term %d, led %d: %w", term, t.cfg.Term, ErrTermOver))
	}
	return term == t.cfg.Term
}

func (t *Tracker) mono() time.Duration { return time.Since(t.start) }

// now reads the accountable clock.
func (t *Tracker) now() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clock.read(t.mono())
}

func (t *Tracker) wake() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

func (t *Tracker) shard(id session.ID) *shard { return &t.shards[shardOf(id)] }

// lead runs rounds and expiry until the term is over.
func (t *Tracker) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	x := expirer{t: t}
	defer x.flights.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if t.current(); t.isOver() {
			return t.reason
		}
		t.reconfigure()
		t.judge()
		x.poll(ctx)
		timer.Reset(t.beat(&x))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.over:
			return t.reason
		case <-timer.C:
		case <-t.kick:
		}
	}
}

// reconfigure takes the newest configuration. Of two calls that overlap the one that looked later wins. No members at
// all is what a node says that is stopping: nobody is lost for that.
func (t *Tracker) reconfigure() {
	look := t.looks.Add(1)
	members := t.view.Members()
	last := t.view.LastIndex()
	t.mu.Lock()
	var ended []*stream
	if look > t.looked && len(members) > 0 {
		t.looked = look
		ended = t.rounds.configure(members, last, t.clock.read(t.mono()))
	}
	t.mu.Unlock()
	for _, s := range ended {
		s.stop(fmt.Errorf("node %d left the cluster: %w", s.hello.Node, session.ErrWrongCluster))
	}
}

// judge looks whether a newer round is good; if so the clock goes on (A1), and who waited for it is woken (R4).
func (t *Tracker) judge() {
	t.mu.Lock()
	if !t.rounds.judge() {
		t.mu.Unlock()
		return
	}
	good := t.rounds.good.n
	stood := t.clock.good(t.mono())
	t.clock.limit = 2 * t.rounds.interval // not before: a clock never goes back
	close(t.turned)
	t.turned = make(chan struct{})
	t.mu.Unlock()
	if stood > 0 {
		t.stats.stands.Add(1)
		t.logger.Warn("time credited to every session", "credited", stood, "round", good, "term", t.cfg.Term)
	}
}

// beat begins a round if one is wanted, has heartbeats sent to whoever has none unanswered, and returns how long to
// wait for the next thing to do. It comes after judge, so that a heartbeat confirms what a new good round lets it. Only
// one round beyond the regular ones is under way at a time, and it serves all who came to wait while the former one was
// (R4).
func (t *Tracker) beat(x *expirer) time.Duration {
	applied := t.view.AppliedIndex()
	t.mu.Lock()
	mono := t.mono()
	now := t.clock.read(mono)
	newest := t.rounds.newest
	wanted := t.wanted > newest.number() || x.wants > newest.moment()
	begins := mono >= t.regular || wanted && newest == t.rounds.good
	if begins {
		t.rounds.begin(now)
		t.rounds.decide(now)
		t.rounds.compare(applied, now)
		t.regular = mono + t.rounds.interval
	}
	ready := t.rounds.ready()
	wait := t.regular - mono
	if at, ok := t.rounds.nextLoss(now); ok {
		wait = t.sooner(wait, at, mono)
	}
	if x.waits {
		wait = t.sooner(wait, x.next, mono)
	}
	t.mu.Unlock()
	if begins {
		t.stats.rounds.Add(1)
	}
	for _, s := range ready {
		s.beat()
	}
	return wait
}

// sooner returns wait, or less if the clock reads at before. Called with mu held.
func (t *Tracker) sooner(wait, at, mono time.Duration) time.Duration {
	if d, ok := t.clock.until(at, mono); ok {
		return min(wait, d)
	}
	return wait
}

// await returns when a round that begins later than the call has become good (R4).
func (t *Tracker) await(ctx context.Context) error {
	t.mu.Lock()
	need := t.rounds.newest.number() + 1
	t.wanted = max(t.wanted, need)
	t.mu.Unlock()
	t.wake()
	for {
		t.mu.Lock()
		good, turned := t.rounds.good.number(), t.turned
		t.mu.Unlock()
		if good >= need {
			return nil
		}
		select {
		case <-turned:
		case <-t.over:
			return &session.NotLeaderError{}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isOver reports whether the term is over.
func (t *Tracker) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// LogVersion returns the newest form of log entries that every member reads ([session.LogVersion]): each has said so on
// a stream in this term, or the log has one of that form already.
func (t *Tracker) LogVersion() uint32 {
	if t.cfg.Written() >= session.LogVersion {
		return session.LogVersion
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	version := uint32(session.LogVersion)
	for _, m := range t.rounds.members {
		if m.present {
			version = min(version, m.hello.LogVersion)
		}
	}
	return version
}

// Follows reports whether a node has a stream open to this tracker.
func (t *Tracker) Follows(node session.Node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.rounds.members[node]
	return m != nil && m.stream != nil
}

// handle runs a request's handler beside the caller; false when the term is over.
func (t *Tracker) handle(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.handlers.Go(f)
	return true
}
