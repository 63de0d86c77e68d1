// Package noraft runs a cluster without consensus and without a network: the state machine, the tracker of a leader and
// the learners of the nodes, wired together as package node wires them. All nodes share one state. The log is a queue
// in memory, so no entry is lost, late or out of order, and a test of the parts above Raft runs thousands of cluster
// lives in a minute.
//
// A cluster keeps to the clock of its goroutines: in a bubble of [testing/synctest] a run takes virtual time and can be
// repeated. It reports what went wrong as errors and needs no testing.T.
//
//	c := noraft.New(noraft.Config{Voters: 3, Limits: session.DefaultLimits()})
//	c.Lead(ctx)
//	server := c.Serve(ctx, 1) // the session.Service of node 1
//	c.Follow(ctx, 1, server)
//	...
//	cancel()
//	err := c.Wait()
package noraft

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/fsm"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/tree"
)

// Every cluster has the same term and the same heartbeat interval.
const (
	Term     = 7
	Interval = 500 * time.Millisecond
)

// catchUpWait is how long a request waits for its node to catch up. All nodes share the state, so it never does.
const catchUpWait = time.Second

// Key is the key of every cluster: tests can compute credentials before a cluster exists.
func Key() session.Key { return session.Key{1, 2, 3} }

// Config is what a [Cluster] is made with.
type Config struct {
	// Voters is the number of members: nodes 1 to Voters, each with a vote. Node 1 leads.
	Voters int
	// Limits clamps the timeouts of sessions.
	Limits session.Limits
	// Local allows local sessions and their upgrade, on every node.
	Local bool
	// Try are the client addresses that nodes name to clients in jeopardy.
	Try []string
	// Commit is how long the log takes for an entry. 0: Propose applies each command at once, as an entry of its own.
	Commit time.Duration
	// Batch is the number of commands in one entry at most, if Commit is above 0; 0 is 1.
	Batch int
	// Logger is given to every part. Nil: nothing is logged.
	Logger hclog.Logger
}

// Cluster is the state that all nodes have applied, the log that leads to it, and the goroutines of the nodes.
//
// A test applies entries of its own first ([Cluster.Apply]), calls [Cluster.Lead] once, and then gives nodes their
// learners. It ends every goroutine through the contexts that it passed, and calls [Cluster.Wait] last. The other
// methods are safe for concurrent use after Lead.
type Cluster struct {
	cfg     Config
	view    view
	log     *log
	tracker *leader.Tracker // nil before Lead
	streams atomic.Uint64   // the number of the newest stream: a node's later stream needs a higher one (T6)
	running sync.WaitGroup  // of every goroutine that a method started
}

// New returns a cluster whose state has the [Key]. It starts nothing.
func New(cfg Config) *Cluster {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	c := &Cluster{cfg: cfg}
	c.log = newLog(cfg)
	c.view.State = c.log.state
	for n := range cfg.Voters {
		c.view.members = append(c.view.members, session.Member{Node: session.Node(n + 1), Voter: true})
	}
	_, _ = c.log.apply([]session.Command{session.Configure{
		Key: Key(), Level: session.FeatureLevel, Limits: tree.DefaultLimits(),
	}}) // Wait returns the error
	return c
}

// State returns the state that every node has applied.
func (c *Cluster) State() *fsm.State { return c.log.state }

// Tracker returns the leader's tracker, nil before [Cluster.Lead].
func (c *Cluster) Tracker() *leader.Tracker { return c.tracker }

// Apply applies one entry of commands at once, whatever [Config.Commit] says, and returns a result for each command.
// Its error says that a command is out of range or that the state has halted.
func (c *Cluster) Apply(commands ...session.Command) ([]session.Result, error) {
	return c.log.apply(commands)
}

// Lead begins the term of node 1. The tracker and the log run until ctx ends. Lead is called once.
func (c *Cluster) Lead(ctx context.Context) {
	c.tracker = leader.New(leader.Config{
		Node: 1, Term: Term, Interval: Interval, Limits: c.cfg.Limits, Logger: c.cfg.Logger,
	}, c.log, c.view)
	frozen, _ := c.log.state.Observe(c.tracker)
	c.running.Go(func() { c.log.run(ctx) })
	c.running.Go(func() { _ = c.tracker.Run(ctx, frozen) })
}

// Serve starts the learner of node n, which runs until ctx ends and is told of every entry for as long as the cluster
// exists. It has no stream to the leader until [Cluster.Follow] or the test itself gives it one. It serves sessions
// alone: requests for the tree are refused as by a node that knows nothing yet.
func (c *Cluster) Serve(ctx context.Context, n session.Node) *learner.Server {
	now := c.log.state.Tree()
	s := learner.NewServer(learner.Config{
		Tree: learner.TreeState{Index: now.Index, Root: now.Root, Writers: now.Writers},
		Node: n, Interval: Interval, Limits: c.cfg.Limits, Local: c.cfg.Local, Upgrade: c.cfg.Local,
		CatchUpWait: catchUpWait, Try: func() []string { return c.cfg.Try }, Logger: c.cfg.Logger,
	}, c.view)
	c.log.state.Observe(s)
	c.running.Go(func() { _ = s.Run(ctx) })
	return s
}

// Follow opens a stream between s, the learner of node n, and the tracker. It returns at once; the stream lasts until
// ctx ends or one end gives it up. A learner has one stream at a time.
func (c *Cluster) Follow(ctx context.Context, n session.Node, s *learner.Server) {
	l := newLink(ctx)
	hello := session.Hello{Node: n, Incarnation: 1, Stream: c.streams.Add(1)}
	c.running.Go(func() {
		_ = c.tracker.Follow(l.ctx, hello, leaderEnd{l})
		l.cancel()
	})
	c.running.Go(func() { _ = s.Follow(learnerEnd{l}) })
}

// Wait waits until every goroutine of the cluster has ended, which they do when their contexts end. It returns why the
// state has halted, nil when it has not.
func (c *Cluster) Wait() error {
	c.running.Wait()
	return c.log.halted()
}

// view is what the tracker and the learners read: the shared state, all of it committed.
type view struct {
	*fsm.State

	members []session.Member
}

func (v view) Ascend(after session.ID, yield func(session.Session) bool) {
	v.Frozen().Ascend(after, yield)
}

func (view) Term() uint64                { return Term }
func (v view) CommitIndex() uint64       { return v.AppliedIndex() }
func (v view) LastIndex() uint64         { return v.AppliedIndex() }
func (v view) Members() []session.Member { return v.members }
