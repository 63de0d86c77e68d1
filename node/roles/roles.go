// Package roles decides and runs the role of this node: it leads a term (R5 start of a tracker), follows the leader
// over a stream to it, or waits while it stalls. A [Runner] runs for the life of the node.
package roles

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"

	"holdfast/fsm"
	"holdfast/fsm/entry"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/node/members"
	"holdfast/session"
	"holdfast/transport/dial"
	"holdfast/transport/raftnet"
	"holdfast/transport/tracing"
	"holdfast/tree"
)

// retryFraction is the part of a heartbeat interval after which a node looks again at which node leads, unless
// something tells it earlier.
const retryFraction = 5

// Config is what a [Runner] is made from.
type Config struct {
	Logger hclog.Logger
	// Node is this node. Interval is the heartbeat interval.
	Node     session.Node
	Interval time.Duration
	Pulse    session.Pulse
	// Clock is the wall clock of this node.
	Clock func() time.Time
	// Stalled returns an error while this node stalls. It is asked again after each StallPeriod.
	Stalled     func() error
	StallPeriod time.Duration

	// Raft says who leads. Changed gets a token after each change of what it says.
	Raft    Raft
	Changed <-chan struct{}
	// Log accepts the commands of a leader, State is what this node has applied.
	Log        leader.Log
	State      State
	Learner    Learner
	Streams    *Streams
	Membership *members.Membership
	Operator   *members.Operator

	// Dial returns how the peer port at an address is dialled.
	Dial func(address string) dial.PeerConfig
	// Link wraps links to leaders on other nodes; nil: nothing does.
	Link func(learner.ForwardingLink) learner.ForwardingLink
	// Tracer makes the spans of links and of the log; nil makes none.
	Tracer *tracing.Tracer
	// Record gets the position of a leader's directory.
	Record func(raftnet.Directory, raftnet.Position)

	// ExpiryInterval and Limits are those of a tracker, Capacity and TreeLimits those that this node puts into the log
	// when it leads.
	ExpiryInterval time.Duration
	Limits         session.Limits
	Capacity       session.Capacity
	TreeLimits     tree.Limits
	// NewestStream asks a node for its newest stream to a leader.
	NewestStream func(context.Context, session.Node) (session.Hello, bool)
	// WatchRounds transfers leadership while good, the number of good rounds, does not rise. It returns when ctx ends.
	WatchRounds func(ctx context.Context, good func() uint64)
	// Announce is called when this node begins or ends to lead a term.
	Announce  func(leads bool)
	Observers Observers
}

// Raft is the part of *raft.Raft that says who leads.
type Raft interface {
	State() raft.RaftState
	LeaderWithID() (raft.ServerAddress, raft.ServerID)
}

// State is the state that this node has applied, with Raft's term and members. Safe for concurrent use.
type State interface {
	leader.View
	Observe(o fsm.Observer) (frozen *fsm.View, cancel func())
	CheckCapacity(c session.Command) error
	PartOfRequests(upTo uint64, most int) uint64
	Usage() session.Usage
	Tree() *fsm.Tree
}

// Learner serves this node's clients.
type Learner interface {
	// Follow keeps a relay on the leader of a link until the link ends.
	Follow(link learner.Link) error
}

// Observers are functions that watch the terms of this node. They must return soon. Only Members may be nil.
type Observers struct {
	// Leads is called with the term of each tracker that begins.
	Leads func(term uint64)
	// OnAnswer is called when the tracker of a term has received the whole answer of a node to the heartbeat that it
	// sent at a moment.
	OnAnswer func(term uint64, from session.Node, sent time.Time)
	// Members is called with the members that the tracker of a term finds, first at its beginning and then after each
	// change.
	Members func(term uint64, all []session.Member)
	// Expires is called with the sessions that the tracker of a term has just found expired; late has the delay of
	// each.
	Expires func(term uint64, found []session.Closing, late []time.Duration)
}

// Runner decides and runs the role of this node. Make it with [New], and run it once with Run. Its other methods are
// safe for concurrent use.
type Runner struct {
	cfg   Config
	terms *terms
	// warnings bounds the log lines about roles that end.
	warnings rate.Sometimes
}

// warningInterval is the least time between two warnings about roles that end.
const warningInterval = 10 * time.Second

// New returns a Runner. It starts nothing.
func New(cfg Config) *Runner {
	return &Runner{cfg: cfg, terms: newTerms(cfg), warnings: rate.Sometimes{Interval: warningInterval}}
}

// Tracker returns the tracker of the term that this node leads, nil while it leads none.
func (r *Runner) Tracker() *leader.Tracker { return r.terms.tracker.Load() }

// Totals sums what has happened in all terms that this process has led. Only the fields that count are set.
func (r *Runner) Totals() leader.Stats { return r.terms.tracker.totals() }

// Clocks returns what the proposer puts into an entry (D3 log clock).
func (r *Runner) Clocks() entry.Clocks { return r.terms.tree.clocks() }

// Follow serves the stream of another node to the tracker of the term that this node leads.
func (r *Runner) Follow(ctx context.Context, hello session.Hello, link leader.Link) error {
	return r.terms.follow(ctx, hello, link)
}

// Forward serves the stream of another node's writes to the tracker of the term that this node leads.
func (r *Runner) Forward(ctx context.Context, hello session.ForwardHello, link leader.ForwardLink) error {
	return r.terms.forward(ctx, hello, link)
}

// Run takes one role after the other until ctx ends. Nothing is promoted or demoted in place: each term that this node
// leads has a tracker of its own, and each stream to a leader a relay of its own.
func (r *Runner) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		var err error
		switch {
		case r.cfg.Stalled() != nil:
			r.awaitEnd(ctx)
		case r.cfg.Raft.State() == raft.Leader:
			err = r.terms.lead(ctx)
		default:
			err = r.follow(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.cfg.Logger.Debug("role ended", "error", err)
			r.warn(err)
		}
		r.pause(ctx, r.cfg.Interval/retryFraction)
	}
	return nil
}

// pause waits for a change of leadership, at most for a time, or until ctx ends. Only the goroutine that looks for
// changes may call it: of a change there is one token.
func (r *Runner) pause(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.cfg.Changed:
	case <-ctx.Done():
	}
}

// warn warns at intervals about a role that cannot start. A change of leader is no reason to warn.
func (r *Runner) warn(err error) {
	if errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrNotLeader) ||
		errors.Is(err, leader.ErrTermOver) {
		return
	}
	r.warnings.Do(func() { r.cfg.Logger.Warn("role ended, and is tried again", "error", err) })
}

// awaitEnd waits until the node no longer stalls, or ctx ends.
func (r *Runner) awaitEnd(ctx context.Context) {
	ticker := r.cfg.Pulse.Ticker(r.cfg.StallPeriod)
	defer ticker.Stop()
	for r.cfg.Stalled() != nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow keeps a relay on the leader that Raft names, over one stream, until the stream ends or Raft names another
// leader.
func (r *Runner) follow(ctx context.Context) (err error) {
	_, id := r.cfg.Raft.LeaderWithID()
	leads, ok := r.cfg.Membership.PeerOfServer(id)
	if !ok || leads.Node == r.cfg.Membership.Self() {
		return session.ErrNoLeader
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		r.watchLeader(ctx, id)
		cancel()
	})
	defer wg.Wait()
	defer cancel()
	link, err := dial.Peer(ctx, r.cfg.Dial(leads.Peer), r.cfg.Streams.next())
	if err != nil {
		return err
	}
	_, directory, _ := raftnet.ParseServerID(id) // PeerOfServer has read it
	var to learner.ForwardingLink = &observedLink{
		ForwardingLink: peerLink{link}, leader: leads.Node, record: func(at raftnet.Position) { r.cfg.Record(directory, at) },
	}
	if r.cfg.Link != nil {
		to = r.cfg.Link(to)
	}
	to = tracedToLeader(r.cfg.Tracer, to)
	defer func() { err = errors.Join(err, to.Close()) }()
	return r.cfg.Learner.Follow(to)
}

// watchLeader returns when Raft names another leader, or this node stalls.
func (r *Runner) watchLeader(ctx context.Context, id raft.ServerID) {
	ticker := r.cfg.Pulse.Ticker(r.cfg.Interval) // in case that a signal was lost
	defer ticker.Stop()
	for {
		if _, now := r.cfg.Raft.LeaderWithID(); now != id || r.cfg.Stalled() != nil {
			return
		}
		select {
		case <-r.cfg.Changed:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
