// Package node assembles a node: its data directory, Raft, the replicated state, the roles of leader and learner, and
// the servers on its four ports. It is the only package that sees all the others, and it decides nothing about
// sessions.
package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"

	"holdfast/fsm"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/node/config"
	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/transport/clientport"
	"holdfast/transport/peerport"
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
	// Disk, when set, wraps what Raft writes its log and its votes with, below all that this package puts around it.
	Disk func(logs raft.LogStore, stable raft.StableStore) (raft.LogStore, raft.StableStore)
	// Clock is the wall clock that ids, certificates and incarnations are made from (O1, T6); nil is time.Now.
	Clock func() time.Time
	// Heard, when set, is told that this node's tracker of a term has taken in the whole answer of a node to the
	// heartbeat that it sent to it at a moment. It must return soon.
	Heard func(term uint64, from session.Node, sent time.Time)
	// Expires, when set, is told which sessions this node's tracker of a term has just found expired, before it
	// proposes to end them. It must return soon.
	Expires func(term uint64, found []session.Closing)
	// Leads, when set, is told of each tracker that begins, with its term: the same term again when this node stalled
	// for less than it takes the others to elect. It must return soon.
	Leads func(term uint64)
	// Local, when set, is told of each local session that opens, gets a new attachment or ends on this node, before its
	// client is; of an open or a resume once more when it is repeated. It must return soon, and is called by several
	// goroutines.
	Local func(session.Change)
	// Runs, when set, is called before this node looks at its clocks for what it promises and reports, by several
	// goroutines. A simulation has it not return while the process is to stand.
	Runs func()
	// CommitTimeout is how soon a quiet leader tells followers of a commit; 0 is the usual. A simulation's time goes
	// there.
	CommitTimeout time.Duration

	// monotonic is the watchdog's time: a test makes it jump, as if the process had not run.
	monotonic func() time.Time
}

// Node is one node of a cluster. Make it with [New], run it once with Run.
type Node struct {
	cfg     config.Config
	options Options
	logger  hclog.Logger
	network Network

	dir       *dir
	listeners listeners
	state     *fsm.State
	view      *view
	consensus *consensus
	proposer  *fsm.Proposer
	watchdog  *watchdog.Watchdog
	replica   *replica
	admission *admission
	// raft is set once Raft runs: what comes over its port looks at it.
	raft   atomic.Pointer[raft.Raft]
	server *learner.Server
	client *clientport.Server
	peers  *peerport.Server

	// rounds are those of the newest term this node led. It belongs to the goroutine of the roles.
	rounds ledRounds
	// tracker is that of the term this node leads, nil in others.
	tracker atomic.Pointer[leader.Tracker]
	// member is set while Raft's newest configuration names this node on its directory, as of the last look.
	member atomic.Bool
	// streams counts the streams to leaders.
	streams atomic.Uint64
	// complaints bounds what is logged about roles that end. Only the role loop uses it.
	complaints rate.Sometimes

	fatal     chan struct{}
	fatalOnce sync.Once
	// fatalErr is set before fatal is closed.
	fatalErr error
	ready    chan struct{}
	// released is closed when Raft is to end: a write that failed is held until then.
	released    chan struct{}
	releaseOnce sync.Once
}

// complaintInterval is the least time between two warnings about roles that end.
const complaintInterval = 10 * time.Second

// fatalWait is how long a failed start may take to say what it was doing.
const fatalWait = time.Second

// New opens the data directory, binds the ports and starts Raft. Errors say what to do. The node serves once Run runs;
// a node that is not to run after all is closed by running it with a context that has ended.
func New(cfg config.Config, o Options) (*Node, error) {
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
		released:   make(chan struct{}),
		complaints: rate.Sometimes{Interval: complaintInterval},
	}
	if n.network == nil {
		n.network = tcp{}
	}
	if o.monotonic == nil {
		o.monotonic = time.Now
	}
	n.watchdog = watchdog.NewWatchdog(cfg.Raft.StallLimit, o.monotonic)
	n.replica = &replica{complaints: rate.Sometimes{Interval: complaintInterval}}
	if n.options.Clock == nil {
		n.options.Clock = time.Now
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
	if n.dir, err = openDir(n.cfg.DataDir, n.cfg.ClusterID, n.cfg.Node, n.options.Clock()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.dir.Close())
		}
	}()
	n.admission = newAdmission(n.cfg.Node, n.dir.record.Directory, n.dir.record.Founders, n.otherNodes())
	n.admission.about = about{names: n.named, term: n.term, stream: n.newestStream, agreement: newAgreement(n.cfg.Node,
		n.cfg.Compared())}
	if n.listeners, err = n.listen(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			n.listeners.close()
		}
	}()
	n.state = fsm.New(fsm.Config{Logger: n.logger, Fatal: n.fail, LogFile: filepath.Join(n.dir.Path, logFile)})
	n.view = &view{State: n.state}
	n.server = learner.NewServer(learner.Config{
		Node:           n.cfg.Node,
		Interval:       n.cfg.Sessions.HeartbeatInterval,
		ExpiryInterval: n.cfg.Sessions.ExpiryInterval,
		Limits:         n.cfg.Sessions.Limits(),
		Local:          n.cfg.Sessions.Local,
		Capacity:       n.cfg.Sessions.Capacity(),
		Upgrade:        n.cfg.Sessions.LocalUpgrade,
		ReadOnly:       n.cfg.ReadOnly,
		ReadOnlyAfter:  n.cfg.ReadOnlyAfter(),
		Admitted:       n.belongs,
		LocalChanged:   n.options.Local,
		Runs:           n.options.Runs,
		Clock:          n.options.Clock,
		LaggingWait:    n.cfg.Clients.LaggingWait,
		Try:            n.others,
		Judge:          n.judge,
		Logger:         n.logger.Named("learner"),
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
		Timeout: n.cfg.Raft.ApplyTimeout,
	}, n.consensus.raft)
	n.client = n.newClientServer()
	n.peers = n.newPeerServer()
	return nil
}

// startConsensus starts Raft. A write that fails is never answered, not even while Raft starts: the goroutine that made
// it ends instead.
func (n *Node) startConsensus() error {
	started := make(chan error, 1)
	go func() {
		err := errHeld
		defer func() { started <- err }()
		n.consensus, err = n.startRaft(n.listeners.raft)
	}()
	select {
	case err := <-started:
		return err // also when something is fatal already: Run says so
	case <-n.fatal:
	}
	n.release()
	timer := time.NewTimer(fatalWait)
	defer timer.Stop()
	select {
	case err := <-started:
		switch {
		case errors.Is(err, errHeld):
			return n.fatalErr
		case err != nil: // it was the state machine that refused, and Raft says more
			return errors.Join(err, n.fatalErr)
		}
		//nolint:forbidigo // the node never ran: there is no context to stop it with
		bound, done := context.WithTimeout(context.Background(), fatalWait)
		defer done()
		return errors.Join(n.fatalErr, n.consensus.stop(bound))
	case <-timer.C: // something hangs, and keeps what it hangs on
		return n.fatalErr
	}
}

// errHeld says that Raft's start ended at a write that failed.
var errHeld = errors.New("a write failed while Raft was starting")

// release lets goroutines that are held at a write that failed end. Raft must be about to end, or not have begun.
func (n *Node) release() { n.releaseOnce.Do(func() { close(n.released) }) }

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
	n.client.SetServing(clientport.HealthLeader, t != nil)
}

// Follow hands the stream of a member to the tracker of the term that this node leads.
func (n *Node) Follow(ctx context.Context, hello session.Hello, link peerport.LeaderLink) error {
	t := n.tracker.Load()
	if t == nil {
		return &session.NotLeaderError{}
	}
	err := t.Follow(ctx, hello, link)
	switch {
	case errors.Is(err, leader.ErrTermOver):
		return &session.NotLeaderError{}
	case errors.Is(err, leader.ErrDirectory):
		return &session.FieldError{
			Field: "hello.directory",
			Limit: fmt.Sprintf(
				"the data directory that the configuration names for node %d; a node on a new one is taken in by the "+
					"leader", hello.Node,
			),
		}
	case errors.Is(err, leader.ErrSuperseded):
		return &session.FieldError{
			Field: "hello.incarnation",
			Limit: fmt.Sprintf("above that of the newest stream of node %d; if no second process runs on a copy of "+
				"its data directory, "+
				"an older copy was put back, which has forgotten votes: empty it", hello.Node),
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

// otherNodes are the numbers of the other nodes.
func (n *Node) otherNodes() []session.Node {
	var others []session.Node
	for _, p := range n.cfg.Peers {
		if p.Node != n.cfg.Node {
			others = append(others, p.Node)
		}
	}
	return others
}

// watchReady tells the health service whether the node serves, and looks whether it is a member still.
func (n *Node) watchReady(ctx context.Context) error {
	ticker := time.NewTicker(n.cfg.Sessions.HeartbeatInterval / retryFraction)
	defer ticker.Stop()
	first := true
	gauges := []fullness{{of: "cluster", read: n.state.Usage}, {of: "node's local sessions", read: n.server.LocalUsage}}
	for {
		for i := range gauges {
			gauges[i].look(n.logger)
		}
		n.member.Store(n.named(n.cfg.Node) == n.admission.mine)
		ok := n.serves() == nil
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
