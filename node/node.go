// Package node assembles a node: its data directory, Raft, the replicated state, the roles of leader and learner, and
// the servers on its four ports. It is the only package that sees all the others, and it decides nothing about sessions.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"holdfast/fsm"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/transport"
)

// Options are what a process brings to a node besides its configuration.
type Options struct {
	// Logger may not be nil.
	Logger hclog.Logger
	// Network is TCP when nil.
	Network Network
	// Version is shown by GetStatus.
	Version string
	// Applied, when set, is told of each applied entry, in order, on the goroutine that applies; it must return soon.
	Applied func(index, term uint64, changes []session.Change)
}

// Node is one node of a cluster. Make it with [New], run it once with Run.
type Node struct {
	cfg     Config
	options Options
	logger  hclog.Logger
	network Network

	dir       *dir
	listeners listeners
	state     *fsm.State
	view      *view
	consensus *consensus
	proposer  *fsm.Proposer
	server    *learner.Server
	client    *transport.ClientServer
	peers     *transport.PeerServer

	// tracker is that of the term this node leads, nil in others.
	tracker atomic.Pointer[leader.Tracker]
	// streams counts the streams to leaders.
	streams atomic.Uint64
	// complaints bounds what is logged about roles that end. Only the role loop uses it.
	complaints rate.Sometimes

	fatal     chan struct{}
	fatalOnce sync.Once
	// fatalErr is set before fatal is closed.
	fatalErr error
	ready    chan struct{}
}

// complaintInterval is the least time between two warnings about roles that end.
const complaintInterval = 10 * time.Second

// fatalWait is how long a failed start may take to say what it was doing.
const fatalWait = time.Second

// New opens the data directory, binds the ports and starts Raft. Errors say what to do. The node serves once Run runs; a
// node that is not to run after all is closed by running it with a context that has ended.
func New(cfg Config, o Options) (*Node, error) {
	cfg, err := cfg.Complete()
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg:        cfg,
		options:    o,
		logger:     o.Logger,
		network:    o.Network,
		fatal:      make(chan struct{}),
		ready:      make(chan struct{}),
		complaints: rate.Sometimes{Interval: complaintInterval},
	}
	if n.network == nil {
		n.network = tcp{}
	}
	for _, warning := range cfg.Warnings() {
		n.logger.Warn("configuration", "warning", warning)
	}
	if err := n.open(); err != nil {
		return nil, err
	}
	return n, nil
}

// open brings up what New promises, from the disk to the servers, and closes what it opened when a step fails.
func (n *Node) open() (err error) {
	if n.dir, err = openDir(n.cfg.DataDir, n.cfg.ClusterID, n.cfg.Node); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.dir.Close())
		}
	}()
	if n.listeners, err = n.listen(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			n.listeners.close()
		}
	}()
	n.state = fsm.New(fsm.Config{Logger: n.logger, Fatal: n.fail})
	n.view = &view{State: n.state}
	n.server = learner.NewServer(learner.Config{
		Node:        n.cfg.Node,
		Interval:    n.cfg.HeartbeatInterval,
		LaggingWait: n.cfg.LaggingWait,
		Try:         n.others,
		Logger:      n.logger.Named("learner"),
	}, n.view)
	n.state.Observe(n.server)
	if n.options.Applied != nil {
		n.state.Observe(appliedHook(n.options.Applied))
	}
	if err = n.startConsensus(); err != nil {
		return err
	}
	n.view.raft = n.consensus.raft
	n.proposer = fsm.NewProposer(fsm.ProposerConfig{
		Logger:  n.logger,
		Timeout: n.cfg.RaftApplyTimeout,
	}, n.consensus.raft)
	n.client = n.newClientServer()
	n.peers = n.newPeerServer()
	return nil
}

// startConsensus starts Raft, or returns what is fatal: a write that fails is never answered, not even while Raft starts.
func (n *Node) startConsensus() error {
	type outcome struct {
		consensus *consensus
		err       error
	}
	started := make(chan outcome, 1)
	go func() {
		c, err := n.startRaft(n.listeners.raft)
		started <- outcome{c, err}
	}()
	select {
	case o := <-started:
		n.consensus = o.consensus
		return o.err
	case <-n.fatal:
	}
	timer := time.NewTimer(fatalWait)
	defer timer.Stop()
	select {
	case o := <-started: // it was the state machine that refused, and Raft says more
		return errors.Join(o.err, n.fatalErr)
	case <-timer.C:
		return n.fatalErr
	}
}

// appliedHook lets a function observe the state.
type appliedHook func(index, term uint64, changes []session.Change)

func (h appliedHook) Applied(index, term uint64, changes []session.Change) { h(index, term, changes) }
func (h appliedHook) Restored()                                            {}

// fail ends the node: Run returns the first error it is told.
func (n *Node) fail(err error) {
	n.fatalOnce.Do(func() {
		n.logger.Error("the node cannot go on", "error", err)
		n.fatalErr = err
		close(n.fatal)
	})
}

// Ready is closed once the node has served for the first time: it follows, or is, a leader with a quorum.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Leads reports whether this node leads a term now.
func (n *Node) Leads() bool { return n.tracker.Load() != nil }

// Digest returns the digest of the replicated state at an index, false when the node has not applied the index or has
// forgotten it: it knows the newest 1,024 (I6).
func (n *Node) Digest(index uint64) ([16]byte, bool) { return n.state.DigestAt(index) }

func (n *Node) setTracker(t *leader.Tracker) {
	n.tracker.Store(t)
	n.client.SetServing(transport.HealthLeader, t != nil)
}

// Follow hands the stream of a member to the tracker of the term that this node leads.
func (n *Node) Follow(ctx context.Context, hello session.Hello, link transport.LeaderLink) error {
	t := n.tracker.Load()
	if t == nil {
		return &session.NotLeaderError{}
	}
	err := t.Follow(ctx, hello, link)
	switch {
	case errors.Is(err, leader.ErrTermOver):
		return &session.NotLeaderError{}
	case errors.Is(err, leader.ErrSuperseded):
		return &session.FieldError{
			Field: "hello.incarnation",
			Limit: fmt.Sprintf("above that of the newest stream of node %d; if the node's directory was emptied, its clock is "+
				"behind: set it and start the node again, or let another node lead", hello.Node),
		}
	}
	return err
}

// others are the client addresses of the other nodes.
func (n *Node) others() []string {
	var addresses []string
	for _, p := range n.cfg.Peers {
		if p.Node != n.cfg.Node {
			addresses = append(addresses, p.Client)
		}
	}
	return addresses
}

// watchReady tells the health service whether the node serves.
func (n *Node) watchReady(ctx context.Context) error {
	ticker := time.NewTicker(n.cfg.HeartbeatInterval / retryFraction)
	defer ticker.Stop()
	first := true
	for {
		ok := n.server.Ready() == nil
		n.client.SetServing("", ok)
		if ok && first {
			first = false
			close(n.ready)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
