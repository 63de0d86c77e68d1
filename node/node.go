// Package node assembles a node: its data directory, Raft, the replicated state, the roles of leader and learner, and
// the servers on its four ports. It is the only package that sees all the others, and it decides nothing about
// sessions.
package node

import (
	"context"
	"errors"
	"path/filepath"
	"time"

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

// Node is one node of a cluster: it puts the parts together, runs them and stops them. Make it with [New], and run it
// once with Run.
type Node struct {
	cfg     config.Config
	options Options
	failure *failure

	dir       *dir
	ports     *ports
	watchdog  *watchdog.Watchdog
	roster    *roster
	witness   *witness
	admission *admission
	view      *view
	consensus *consensus
	replica   *replica
	server    *learner.Server
	health    *health
	successor *successor
	meetings  *meetings
	roles     *roles
}

// complaintInterval is the least time between two warnings about one thing that does not end.
const complaintInterval = 10 * time.Second

// applyTimeout is how long a log entry may wait to be committed before its outcome counts as unknown. It is longer than
// an election takes, so that most requests outlive one.
const applyTimeout = 5 * time.Second

// fatalWait is how long a failed start may take to say what it was doing.
const fatalWait = time.Second

// New opens the data directory, binds the ports and starts Raft. Errors say what to do. The node serves once Run runs.
// To close a node that is not to run after all, run it with a context that has ended.
func New(cfg config.Config, o Options) (*Node, error) {
	cfg, err := cfg.Complete()
	if err != nil {
		return nil, err
	}
	if o.Network == nil {
		o.Network = tcp{}
	}
	if o.monotonic == nil {
		o.monotonic = time.Now
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.pulse = session.NewPulse()
	o.timings = newTimings()
	n := &Node{
		cfg:      cfg,
		options:  o,
		failure:  newFailure(o.Logger),
		watchdog: watchdog.NewWatchdog(cfg.Raft.StallLimit, o.monotonic),
	}
	for _, warning := range cfg.Warnings() {
		o.Logger.Warn("configuration", "warning", warning)
	}
	if n.options.traces, err = openTraces(&n.cfg, o); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		n.options.traces.close()
		return nil, err
	}
	return n, nil
}

// open makes the parts, from the disk to the servers. It closes what it opened when a step fails.
func (n *Node) open() (err error) {
	if n.dir, err = openDir(n.cfg.DataDir, n.cfg.ClusterID, n.cfg.Node, n.options.Clock()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.dir.Close())
		}
	}()
	if copied := n.dir.aside(); copied != "" {
		n.options.Logger.Warn("an older copy of this data directory was put back, and was set aside: find out by whom, and "+
			"remove the copy once the node votes", "copy", copied)
	}
	mine := n.dir.record.Directory
	n.roster = &roster{self: n.cfg.Node, mine: mine, peers: n.cfg.Peers}
	opened := &streams{process: session.Hello{
		Node: n.cfg.Node, Directory: uint64(mine), Incarnation: n.dir.Incarnation,
	}}
	n.witness = openWitness(n.dir, n.options.Logger)
	n.witness.members = n.roster.servers
	n.admission = newAdmission(n.cfg.Node, mine, n.dir.record.Founders, n.roster.otherNodes())
	n.admission.joins = n.cfg.Raft.Join
	n.admission.about = about{
		names: n.roster.named, roster: n.roster, term: n.roster.term, stream: opened.newest,
		agreement: newAgreement(n.cfg.Node, n.cfg.Compared()),
	}
	n.admission.agreement.knows = n.roster.knows
	if n.ports, err = bindPorts(n.cfg, n.options, n.roster.nodeAt); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			n.ports.close()
		}
	}()
	if n.ports.access, err = openAccess(n.cfg.Auth, n.options); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			n.ports.access.close()
		}
	}()
	n.openState()
	n.successor = newSuccessor(n.cfg, n.roster, n.options)
	if err = n.startConsensus(); err != nil {
		return err
	}
	n.view.raft = n.consensus.raft
	space := &namespace{view: n.view, wall: n.options.Clock, tracker: func() *leader.Tracker {
		return n.roles.terms.tracker.Load()
	}}
	n.consensus.proposer = fsm.NewProposer(fsm.ProposerConfig{
		Logger:  n.options.Logger,
		Timeout: applyTimeout,
		Clocks:  space.clocks,
	}, timedRaft{n.consensus.raft, n.options.timings.commit})
	n.consensus.notice.proposer.Store(n.consensus.proposer)
	n.openRoles(opened, space)
	n.health = &health{
		logger: n.options.Logger, watchdog: n.watchdog, roster: n.roster, admission: n.admission,
		room:    func() string { return n.ports.room.warning() },
		aside:   n.dir.aside,
		replica: n.replica, security: n.ports.security, drain: n.newDrain(), freezes: n.view.freezes,
		news:  make(chan struct{}, 1),
		ready: make(chan struct{}),
	}
	n.ports.serve(n)
	return nil
}

// newDrain makes what drains this node.
func (n *Node) newDrain() *drain {
	d := &drain{
		node: n.cfg.Node, timeout: n.cfg.Clients.DrainTimeout, interval: min(n.cfg.Sessions.HeartbeatInterval, drainHears),
		pulse: n.options.pulse, logger: n.options.Logger,
		server:   n.server,
		leads:    func() bool { return n.consensus.raft.State() == raft.Leader },
		handOver: n.HandOver, peers: n.peers, members: n.Members, changed: func() { n.health.again() },
		observes: n.roster.observes,
		news:     make(chan struct{}, 1),
	}
	d.away = evacuation{
		drain: d, full: func() bool { return n.ports.room.full() }, noRoom: n.server.NoRoom,
		handOverTo: n.roles.terms.handover.handOverTo,
	}
	return d
}

// openState makes the replicated state, and the parts that observe it.
func (n *Node) openState() {
	state := fsm.New(fsm.Config{
		Logger: n.options.Logger, Fatal: n.failure.fail, LogFile: filepath.Join(n.dir.Path, logFile),
		Writers: n.options.Bounds.Writers,
	})
	n.view = &view{
		State: state, freezes: newFreezes(n.options.Logger), turnover: &turnover{},
		disks: func() error { return n.ports.room.left() },
	}
	n.roster.gone = state.UsedUp
	n.witness.applied = n.view.AppliedIndex
	n.replica = &replica{
		logger: n.options.Logger, state: state, stepOut: n.stepOut,
		complaints: rate.Sometimes{Interval: complaintInterval},
	}
	n.server = learner.NewServer(learner.Config{
		Node:           n.cfg.Node,
		Interval:       n.cfg.Sessions.HeartbeatInterval,
		Pulse:          n.options.pulse,
		ExpiryInterval: n.cfg.Sessions.ExpiryInterval(),
		Limits:         n.cfg.Sessions.Limits(),
		Local:          n.cfg.Sessions.Local,
		Capacity:       n.cfg.Sessions.Capacity(),
		Upgrade:        n.cfg.Sessions.LocalUpgrade,
		ReadOnly:       n.cfg.ReadOnly,
		ReadOnlyAfter:  n.cfg.ReadOnlyAfter(),
		Admitted:       n.belongs,
		Tree:           stateOf(state.Tree()),
		LocalChanged:   n.options.Local,
		Runs:           n.options.Runs,
		Clock:          n.options.Clock,
		LaggingWait:    n.cfg.Sessions.LaggingWait(),
		Try:            n.roster.otherClients,
		Judge:          n.replica.heed,
		FullDisk:       func() bool { return n.ports.room.full() },
		Forwards:       n.options.forwards,
		Telling:        n.options.Telling,
		Writes:         n.options.Bounds.Writes,
		Logger:         n.options.Logger.Named("learner"),
	}, n.view)
	state.Observe(n.server)
	state.ObserveTree(treeObserver{n.server})
	state.ObserveTree(n.view.turnover)
	state.ObserveTree(n.view.freezes)
	state.Observe(n.view.turnover)
	if n.options.Applied != nil {
		state.Observe(appliedHook(n.options.Applied))
	}
	if n.options.Tree != nil {
		state.ObserveTree(treeHook(n.options.Tree))
	}
}

// openRoles makes the parts that work through Raft.
func (n *Node) openRoles(opened *streams, space *namespace) {
	n.meetings = &meetings{
		logger: n.options.Logger, interval: n.cfg.Sessions.HeartbeatInterval, pulse: n.options.pulse, dir: n.dir,
		roster: n.roster, admission: n.admission, consensus: n.consensus, settled: make(chan struct{}),
		applied: n.view.AppliedIndex, fail: n.failure.fail,
	}
	give := &handover{
		cfg: n.cfg, pulse: n.options.pulse, logger: n.options.Logger, raft: n.consensus.raft,
		watchdog: n.watchdog, peers: n.peers,
	}
	acts := &members{
		interval: n.cfg.Sessions.HeartbeatInterval, logger: n.options.Logger, meetings: n.meetings, handover: give,
		tracker: func() *leader.Tracker { return n.roles.terms.tracker.Load() },
		turn:    make(chan struct{}, 1),
	}
	n.roles = &roles{
		interval: n.cfg.Sessions.HeartbeatInterval, pulse: n.options.pulse, logger: n.options.Logger,
		watchdog: n.watchdog, roster: n.roster, consensus: n.consensus, server: n.server, streams: opened, dial: n.peerDial,
		link: n.options.Link, saw: n.witness.saw,
		complaints: rate.Sometimes{Interval: complaintInterval},
		terms: &terms{
			cfg: n.cfg, options: n.options, view: n.view, consensus: n.consensus, server: n.server, streams: opened,
			members: acts, stalled: n.watchdog.Check, namespace: space,
			announce: func(leads bool) { n.ports.client.SetServing(clientport.HealthLeader, leads) },
			handover: give,
		},
	}
}

// startConsensus starts Raft. A write that fails is never answered, not even while Raft starts: the goroutine that made
// the write ends instead.
func (n *Node) startConsensus() error {
	started := make(chan error, 1)
	go func() {
		err := errHeld
		defer func() { started <- err }()
		n.consensus, err = n.startRaft(n.ports.raft)
	}()
	select {
	case err := <-started:
		return err // also when the node has failed already: Run says so
	case <-n.failure.happened:
	}
	n.failure.release()
	timer := time.NewTimer(fatalWait)
	defer timer.Stop()
	select {
	case err := <-started:
		switch {
		case errors.Is(err, errHeld):
			return n.failure.cause()
		case err != nil: // the state machine refused, and Raft's error says more
			return errors.Join(err, n.failure.cause())
		}
		//nolint:forbidigo // the node never ran: there is no context to stop it with
		bound, done := context.WithTimeout(context.Background(), fatalWait)
		defer done()
		return errors.Join(n.failure.cause(), n.consensus.stop(bound))
	case <-timer.C: // the start hangs, and keeps what it has opened
		return n.failure.cause()
	}
}

// errHeld says that Raft's start ended at a write that failed.
var errHeld = errors.New("a write failed while Raft was starting")

// belongs reports whether this node is admitted, and was a member at the last look. A cluster that has removed this
// node goes on without it, so that its state must not be shown (N1). It takes no lock.
func (n *Node) belongs() bool { return n.admission.admitted() && n.roster.member.Load() }

// stepOut takes this node out of its cluster for as long as its process runs. The others hear no more of it at Raft's
// port, and elect another leader if it led; its roles end, and so do the streams of its clients. Status, metrics and
// health go on, and say why. A node that is started again on the same directory is compared again, and steps out again
// if the difference is on its disk.
func (n *Node) stepOut(why error) {
	n.watchdog.Leave(why)
	n.consensus.layer.Leave()
	n.consensus.watch.again() // the node's role ends
	n.server.StepOut()
	n.health.again()
	n.ports.client.EndStreams()
}

// Ready is closed once the node has served for the first time: it leads with a quorum, or follows such a leader.
func (n *Node) Ready() <-chan struct{} { return n.health.ready }

// Leads reports whether this node leads a term now.
func (n *Node) Leads() bool { return n.roles.terms.leads() }

// HandOver hands Raft's leadership to a voter that is heard and up to date, and returns when this node no longer leads.
// On a node that does not lead, its error is [session.ErrNotLeader]. Otherwise its error is that of ctx, or says why no
// other node took over, and this node leads on. Safe for concurrent use.
func (n *Node) HandOver(ctx context.Context) error { return n.roles.terms.handover.handOver(ctx) }

// peers returns what the tracker of this node's term knows of the members; nothing while this node leads none.
func (n *Node) peers() []leader.Peer {
	if tracker := n.roles.terms.tracker.Load(); tracker != nil {
		return tracker.Peers()
	}
	return nil
}

// Digest returns the digest of the replicated state at an index, false when the node has not applied the index or has
// forgotten it: it knows the newest 1,024 (I6).
func (n *Node) Digest(index uint64) ([16]byte, bool) { return n.view.DigestAt(index) }

// Follow serves the stream of another node, which the peer port has received.
func (n *Node) Follow(ctx context.Context, hello session.Hello, link peerport.LeaderLink) error {
	return n.roles.terms.follow(ctx, hello, link)
}
