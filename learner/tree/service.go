package tree

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// Node is the rest of the node, as the service needs it. Safe for concurrent use.
type Node interface {
	// Sync returns once the node has applied everything that was committed when the call began (R4 leadership needs a
	// good round).
	Sync(ctx context.Context) error
	// ReadError returns why the node answers no read that requires fresh data; nil if it does (G6 stale nodes refuse).
	ReadError() error
	// Session returns a session of the state.
	Session(id session.ID) (session.Session, bool)
}

// Config configures a [Service].
type Config struct {
	Node Node
	// Tree is the tree that the node begins with.
	Tree State
	// Wait bounds the wait of a request for this node to catch up; then the answer is LAGGING (M5 lagging, not
	// expired).
	Wait time.Duration
	// Pulse aligns the checks of waits with other tickers of the node.
	Pulse session.Pulse
	// Dispatchers is the number of dispatchers; 0: as many as processors (G1 order per connection).
	Dispatchers int
	// Hub, Limits, Budgets and Pending are bounds; zero values are the defaults of the rules.
	Hub     dispatch.HubLimits
	Limits  dispatch.Limits
	Budgets dispatch.Budgets
	Pending pending.Limits
}

// tickEvery is the interval at which dispatchers check for expired waits, and for connections that have been sent
// nothing (V5 stamps for idle watchers).
const tickEvery = 250 * time.Millisecond

// State is the tree of the applied state after an entry.
type State struct {
	Index uint64
	// Founded says that the state has applied the entry that founds the cluster (W8 feature level). Before, the tree is
	// empty because the node has no state yet, and no client may read it.
	Founded bool
	Root    tree.Frozen
	Writers *writers.Root
	// Clock is the log clock (D3 log clock). Time includes it, and says whether the cluster is frozen (Y3 freeze).
	Clock time.Duration
	Time  session.LogTime
}

// shown returns the state as dispatchers show it.
func (s State) shown() dispatch.State {
	return dispatch.State{Index: s.Index, Founded: s.Founded, Root: s.Root, Writers: s.Writers, Clock: s.Clock}
}

// Service serves the tree to a node's connections. Safe for concurrent use.
type Service struct {
	cfg         Config
	hub         *dispatch.Hub
	dispatchers []*dispatch.Runner
	queue       *queue
	reads       *indexedReads
	// budgets are the memory budgets that all connections share.
	budgets dispatch.Budgets
	// connections numbers them, and chooses their dispatchers.
	connections atomic.Uint64
	// applied wakes goroutines that wait for a new state.
	applied broadcast
	// ended are the attachments that a restored snapshot has ended. Only the goroutine that applies the log uses it.
	ended []endedAttachment
}

// New returns the service of a node.
func New(cfg Config) *Service {
	if cfg.Dispatchers == 0 {
		cfg.Dispatchers = runtime.GOMAXPROCS(0)
	}
	if cfg.Hub == (dispatch.HubLimits{}) {
		cfg.Hub = dispatch.DefaultHubLimits()
	}
	if cfg.Limits == (dispatch.Limits{}) {
		cfg.Limits = dispatch.DefaultLimits()
	}
	if cfg.Pending == (pending.Limits{}) {
		cfg.Pending = pending.DefaultLimits()
	}
	if cfg.Budgets == (dispatch.Budgets{}) {
		cfg.Budgets = dispatch.DefaultBudgets()
	}
	s := &Service{cfg: cfg, hub: dispatch.NewHub(cfg.Hub, cfg.Tree.shown()), budgets: cfg.Budgets}
	s.queue = newQueue(cfg.Pending, s.view)
	s.reads = &indexedReads{node: cfg.Node, hub: s.hub}
	shared := dispatch.Shared{Hub: s.hub, Writes: s.queue, Budgets: s.budgets}
	for range cfg.Dispatchers {
		s.dispatchers = append(s.dispatchers, dispatch.NewRunner(shared, cfg.Limits))
	}
	return s
}

// view returns the state's writers.
func (s *Service) view() pending.View { return s.hub.Shown().Writers }

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, r := range s.dispatchers {
		wg.Go(func() { r.Run(ctx) })
	}
	wg.Go(func() { s.reads.run(ctx) })
	tick := s.cfg.Pulse.Ticker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		refuse, now := s.cfg.Node.ReadError(), time.Now()
		for _, r := range s.dispatchers {
			r.Do(func(d *dispatch.Dispatcher) {
				d.SetReadError(refuse)
				d.Tick(now)
			})
		}
	}
}

// Numbers returns the numbers for the answer to a session's resume: the number of its newest applied write, and the
// number up to which results are gone (X4 a new instance starts anew).
func (s *Service) Numbers(id session.ID) (applied, floor uint64) {
	w, _ := s.view().Writer(uint64(id))
	return w.Applied, w.Floor
}

// StreamWanted, Wake, Next, ForwardBegan, WritesRefused and ForwardEnded implement [learner.PendingWrites].

// StreamWanted reports whether writes wait for a stream to the leader.
func (s *Service) StreamWanted() bool { return s.queue.streamWanted() }

// Wake returns the channel that signals new work for the stream.
func (s *Service) Wake() <-chan struct{} { return s.queue.wake }

// Next returns the next message to the leader.
func (s *Service) Next() (m session.ForwardMessage, more bool, again time.Time) {
	return s.queue.next()
}

// ForwardBegan records that a stream to the leader is open.
func (s *Service) ForwardBegan() {
	s.queue.do(func(t *pending.Table, now time.Time) { t.StreamBegan(now) })
}

// WritesRefused records writes that the leader has certainly not appended.
func (s *Service) WritesRefused(all []session.WriteRefusal) {
	s.queue.do(func(t *pending.Table, now time.Time) { t.Refused(all, now) })
}

// ForwardEnded records that the stream has ended.
func (s *Service) ForwardEnded(error) {
	s.queue.do(func(t *pending.Table, _ time.Time) { t.StreamEnded() })
}

// Watches returns the number of watches of all connections, and the bytes that they count (V1 kinds of watches).
func (s *Service) Watches() (watches, bytes int) {
	for _, r := range s.dispatchers {
		watches += r.Watches()
	}
	return watches, s.budgets.Watches.Used()
}
