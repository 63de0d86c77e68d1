package namespace

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/learner/lane"
	"holdfast/learner/writes"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// Node is what the rest of the node offers the service. Safe for concurrent use.
type Node interface {
	// Forward and Acknowledge send to the leader, as [learner.Server.Forward] and [learner.Server.Acknowledge] do.
	Forward(all []session.ForwardedWrite) error
	Acknowledge(all []session.Acknowledged) error
	// Sync returns once the node has applied all that was committed anywhere when the call began (R4).
	Sync(ctx context.Context) error
	// Standing says why the node answers no read that does not allow old answers; nil if it does (G6).
	Standing() error
	// Session returns a session of the state.
	Session(id session.ID) (session.Session, bool)
}

// Config configures a [Service].
type Config struct {
	Node Node
	// Tree is the tree that the node begins with.
	Tree State
	// Wait bounds how long a request waits for this node to catch up before the answer is LAGGING (M5).
	Wait time.Duration
	// Pulse aligns the looks at waits with other tickers of the node.
	Pulse session.Pulse
	// Lanes is the number of lanes; 0: as many as processors (G1).
	Lanes int
	// Hub, Lane, Rooms and Writes bound what waits; zero values are the defaults of the rules.
	Hub    lane.HubLimits
	Lane   lane.Limits
	Rooms  lane.Rooms
	Writes writes.Limits
}

// tickEvery is how often lanes look for waits that are over, and for connections that have heard nothing (V5).
const tickEvery = 250 * time.Millisecond

// State is the tree of the applied state after an entry.
type State struct {
	Index uint64
	// Founded says that the state has applied the entry that founds the cluster (W8). Before, the tree is empty because
	// the node knows nothing yet, and nobody may read it.
	Founded bool
	Root    tree.Frozen
	Writers *writers.Root
	// Clock is the log clock (D3). Time has it too, and says whether the cluster is frozen (Y3).
	Clock time.Duration
	Time  session.LogTime
}

// published returns the state as lanes see it.
func (s State) published() lane.Published {
	return lane.Published{Index: s.Index, Founded: s.Founded, Root: s.Root, Kept: kept{s.Writers}, Clock: s.Clock}
}

// kept gives lanes what the state keeps of writes.
type kept struct{ *writers.Root }

// Applied returns the number of a session's newest applied write.
func (k kept) Applied(id uint64) uint64 {
	w, _ := k.Writer(id)
	return w.Applied
}

// Service serves the tree to a node's connections. Safe for concurrent use.
type Service struct {
	cfg   Config
	hub   *lane.Hub
	lanes []*lane.Runner
	queue *queue
	asker *asker
	// rooms are what all connections share.
	rooms lane.Rooms
	// connections numbers them, and chooses their lanes.
	connections atomic.Uint64
	// told is told of each new state.
	told pulse
	// leaving are the attachments that a restored snapshot has ended; used by the goroutine that applies the log.
	leaving []leaving
}

// New returns the service of a node.
func New(cfg Config) *Service {
	if cfg.Lanes == 0 {
		cfg.Lanes = runtime.GOMAXPROCS(0)
	}
	if cfg.Hub == (lane.HubLimits{}) {
		cfg.Hub = lane.DefaultHubLimits()
	}
	if cfg.Lane == (lane.Limits{}) {
		cfg.Lane = lane.DefaultLimits()
	}
	if cfg.Writes == (writes.Limits{}) {
		cfg.Writes = writes.DefaultLimits()
	}
	if cfg.Rooms == (lane.Rooms{}) {
		cfg.Rooms = lane.DefaultRooms()
	}
	s := &Service{cfg: cfg, hub: lane.NewHub(cfg.Hub, cfg.Tree.published()), rooms: cfg.Rooms}
	s.queue = newQueue(cfg.Node, cfg.Writes, s.view)
	s.asker = &asker{node: cfg.Node, hub: s.hub}
	shared := lane.Shared{Hub: s.hub, Writes: s.queue, Rooms: s.rooms}
	for range cfg.Lanes {
		s.lanes = append(s.lanes, lane.NewRunner(shared, cfg.Lane))
	}
	return s
}

// view returns what the state shows of the writers.
func (s *Service) view() writes.View {
	k, _ := s.hub.Shown().Kept.(kept) // published makes no other
	return k
}

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, r := range s.lanes {
		wg.Go(func() { r.Run(ctx) })
	}
	wg.Go(func() { s.queue.run(ctx) })
	wg.Go(func() { s.asker.run(ctx) })
	tick := s.cfg.Pulse.Ticker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		standing, now := s.cfg.Node.Standing(), time.Now()
		for _, r := range s.lanes {
			r.Do(func(l *lane.Lane) {
				l.SetStanding(standing)
				l.Tick(now)
			})
		}
	}
}

// Numbers returns what the answer to a session's resume tells: the number of its newest write that was taken, and the
// one up to which results are gone (X4).
func (s *Service) Numbers(id session.ID) (applied, floor uint64) {
	w, _ := s.view().Writer(uint64(id))
	return w.Applied, w.Floor
}

// ForwardBegan implements [learner.ForwardEvents].
func (s *Service) ForwardBegan() { s.queue.streamBegan() }

// WritesRefused implements [learner.ForwardEvents].
func (s *Service) WritesRefused(all []session.WriteRefusal) { s.queue.refusedByLeader(all) }

// ForwardEnded implements [learner.ForwardEvents].
func (s *Service) ForwardEnded(error) { s.queue.streamEnded() }
