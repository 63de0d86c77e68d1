// Package node assembles a node: its data directory, Raft, the replicated state, the roles of leader and learner, and
// the servers on its ports. It is the only package that connects all parts of a server, and it decides nothing about
// sessions.
package node

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/time/rate"

	"holdfast/fsm"
	"holdfast/fsm/entry"
	"holdfast/learner"
	"holdfast/node/config"
	"holdfast/node/consensus"
	"holdfast/node/election"
	"holdfast/node/health"
	"holdfast/node/members"
	"holdfast/node/metrics"
	"holdfast/node/ports"
	"holdfast/node/roles"
	"holdfast/node/storage"
	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/transport/clientport"
	"holdfast/transport/peerport"
	"holdfast/tree"
)

// Node is one node of a cluster: it puts the parts together, runs them and stops them. Make it with [New], and run it
// once with Run.
type Node struct {
	cfg     config.Config
	options Options
	failure *failure
	// pulse aligns the moments at which the node's parts wake.
	pulse   session.Pulse
	timings *metrics.Timings
	traces  traces

	dir        *storage.Dir
	ports      *ports.Ports
	watchdog   *watchdog.Watchdog
	membership *members.Membership
	admission  *members.Admission
	positions  *storage.Positions
	view       *view
	olderCopy  *members.OlderCopyCheck
	consensus  *consensus.Consensus
	replica    *replica
	server     *learner.Server
	backups    *backups
	transfer   *health.Transfer
	drain      *health.Drain
	resources  *health.Resources
	health     *health.Health
	voter      *election.Voter
	exchange   *members.Exchange
	operator   *members.Operator
	streams    *roles.Streams
	roles      *roles.Runner
}

// complaintInterval is the least time between two warnings about one thing that does not end.
const complaintInterval = 10 * time.Second

// New opens the data directory, binds the ports and starts Raft. Errors say what to do. The node serves once Run runs.
// To close a node that is not to run after all, run it with a context that has ended.
func New(cfg config.Config, o Options) (*Node, error) {
	cfg, err := cfg.Complete()
	if err != nil {
		return nil, err
	}
	o.Platform = o.Platform.withDefaults()
	n := &Node{
		cfg:      cfg,
		options:  o,
		pulse:    session.NewPulse(),
		timings:  metrics.NewTimings(),
		failure:  newFailure(o.Logger),
		watchdog: watchdog.NewWatchdog(cfg.Raft.StallTimeout, o.Platform.monotonic),
	}
	for _, warning := range cfg.Warnings() {
		o.Logger.Warn("configuration", "warning", warning)
	}
	if n.traces, err = openTraces(&n.cfg, o); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		n.traces.close()
		return nil, err
	}
	return n, nil
}

// open makes the parts, from the disk to the servers. It closes what it opened when a step fails.
func (n *Node) open() (err error) {
	if n.dir, err = storage.OpenDir(n.cfg.DataDir, n.cfg.ClusterID, n.cfg.Node, n.options.Platform.Clock()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.dir.Close())
		}
	}()
	if copied := n.dir.OlderCopy(); copied != "" {
		n.options.Logger.Warn("an older copy of this data directory was put back, and was set aside: find out by whom, and "+
			"remove the copy once the node votes", "copy", copied)
	}
	identity := n.dir.Identity()
	n.membership = members.NewMembership(n.cfg.Node, identity.Directory, n.cfg.Peers)
	n.streams = roles.NewStreams(session.Hello{
		Node: n.cfg.Node, Directory: uint64(identity.Directory), Incarnation: n.dir.Incarnation(),
	})
	n.positions = storage.OpenPositions(n.dir, storage.PositionsConfig{
		Logger: n.options.Logger, Members: n.membership.Servers,
		Applied: func() uint64 { return n.view.AppliedIndex() },
	})
	n.admission = members.NewAdmission(members.AdmissionConfig{
		Membership: n.membership, Founders: identity.Founders, Joins: n.cfg.Raft.Join, Settings: n.cfg.Compared(),
		Stream: n.streams.Newest, LostMajority: storage.LostMajority,
	})
	if n.ports, err = n.bindPorts(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			n.ports.Close()
		}
	}()
	n.openState()
	n.voter = election.New(election.Config{
		Logger: n.options.Logger, Pulse: n.pulse, Membership: n.membership, Silence: n.cfg.RaftConfig().LeaderLeaseTimeout,
	})
	n.olderCopy = members.NewOlderCopyCheck(n.membership, n.dir,
		filepath.Join(n.dir.Path(), storage.OlderCopyFolder), n.failure.fail)
	if n.consensus, err = n.startConsensus(); err != nil {
		return err
	}
	n.view.raft = n.consensus.Raft
	n.openRoles()
	n.drain = n.newDrain()
	n.backups = n.newBackups()
	n.ports.MakeServers(n.services())
	n.resources = n.newResources()
	n.health = n.newHealth()
	return nil
}

// openState makes the replicated state, and the parts that observe it.
func (n *Node) openState() {
	state := fsm.New(fsm.Config{
		Logger: n.options.Logger, Fatal: n.failure.fail, LogPath: filepath.Join(n.dir.Path(), storage.LogFolder),
		Writers: n.options.Platform.Bounds.Writers,
	})
	n.view = &view{
		State: state, freezes: health.NewFreezes(n.options.Logger), turnover: &turnover{},
		disks: func() error { return n.resources.Refusal() },
	}
	n.membership.SetUsedUp(state.UsedUp)
	n.replica = &replica{
		logger: n.options.Logger, state: state, stepOut: n.stepOut,
		complaints: rate.Sometimes{Interval: complaintInterval},
	}
	n.server = learner.NewServer(learner.Config{
		Node:           n.cfg.Node,
		Interval:       n.cfg.Sessions.HeartbeatInterval,
		Pulse:          n.pulse,
		ExpiryInterval: n.cfg.Sessions.ExpiryInterval(),
		Limits:         n.cfg.Sessions.Limits(),
		Local:          n.cfg.Sessions.Local,
		Capacity:       n.cfg.Sessions.Capacity(),
		Upgrade:        n.cfg.Sessions.LocalUpgrade,
		ReadOnly:       n.cfg.ReadOnly,
		ReadOnlyAfter:  n.cfg.ReadOnlyAfter(),
		Admitted:       n.admission.Belongs,
		Tree:           stateOf(state.Tree()),
		LocalChanged:   n.options.Observers.Local,
		Runs:           n.options.Platform.Runs,
		Clock:          n.options.Platform.Clock,
		CatchUpWait:    n.cfg.Sessions.CatchUpWait(),
		Try:            n.membership.OtherClients,
		OnComparison:   n.replica.heed,
		FullDisk:       n.diskFull,
		Writes:         n.options.Platform.writes,
		WatchLimits:    n.options.Platform.WatchLimits,
		Pending:        n.options.Platform.Bounds.Writes,
		Logger:         n.options.Logger.Named("learner"),
	}, n.view)
	state.Observe(n.server)
	state.ObserveTree(treeObserver{n.server})
	state.ObserveTree(n.view.turnover)
	state.ObserveTree(n.view.freezes)
	state.Observe(n.view.turnover)
	if n.options.Observers.Applied != nil {
		state.Observe(appliedHook(n.options.Observers.Applied))
	}
	if n.options.Observers.Tree != nil {
		state.ObserveTree(treeHook(n.options.Observers.Tree))
	}
}

// openRoles makes the parts that work through Raft.
func (n *Node) openRoles() {
	n.exchange = members.NewExchange(members.ExchangeConfig{
		Logger: n.options.Logger, Interval: n.cfg.Sessions.HeartbeatInterval, Pulse: n.pulse, Directory: n.dir,
		Network: n.consensus.Network, Membership: n.membership, Admission: n.admission, OlderCopy: n.olderCopy,
		Applied: n.view.AppliedIndex, Fail: n.failure.fail,
	})
	n.transfer = n.newTransfer()
	n.operator = members.NewOperator(members.OperatorConfig{
		Logger: n.options.Logger, Interval: n.cfg.Sessions.HeartbeatInterval, Pulse: n.pulse, Membership: n.membership,
		Admission: n.admission, Exchange: n.exchange, Transfer: n.transfer, DrainTimeout: n.cfg.Clients.DrainTimeout,
		Term: func() members.Term {
			if tracker := n.roles.Tracker(); tracker != nil {
				return tracker
			}
			return nil
		},
		Propose: n.consensus.Proposer.Propose,
	})
	n.roles = roles.New(roles.Config{
		Logger: n.options.Logger, Node: n.cfg.Node, Interval: n.cfg.Sessions.HeartbeatInterval, Pulse: n.pulse,
		Clock: n.options.Platform.Clock, Stalled: n.watchdog.Check, StallPeriod: n.watchdog.Period,
		Raft: n.consensus.Raft, Changed: n.consensus.Changed(), Log: n.consensus.Proposer, State: n.view,
		Learner: n.server, Streams: n.streams, Membership: n.membership, Operator: n.operator,
		Dial: n.peerDial, Link: n.options.Platform.Link, Tracer: n.traces.tracer, Record: n.positions.Record,
		ExpiryInterval: n.cfg.Sessions.ExpiryInterval(), Limits: n.cfg.Sessions.Limits(),
		Capacity: n.cfg.Sessions.Capacity(), TreeLimits: n.treeLimits(),
		NewestStream: n.exchange.NewestStream, WatchRounds: n.transfer.WatchRounds,
		Announce:  func(leads bool) { n.ports.SetServing(clientport.HealthLeader, leads) },
		Observers: n.termObservers(),
	})
}

// treeLimits returns the limits of the tree that this node puts into the log when it leads.
func (n *Node) treeLimits() tree.Limits {
	limits := n.cfg.Tree.Limits()
	if bytes := n.options.Platform.Bounds.TreeBytes; bytes > 0 {
		limits.Bytes = bytes
	}
	return limits
}

// termObservers measures the terms that this node leads, and calls the program's own observers.
func (n *Node) termObservers() roles.Observers {
	own := n.options.Observers
	return roles.Observers{
		Members: own.Members,
		Leads: func(term uint64) {
			if own.Leads != nil {
				own.Leads(term)
			}
		},
		OnAnswer: func(term uint64, from session.Node, sent time.Time) {
			n.timings.ObserveAnswer(from, sent)
			if own.OnAnswer != nil {
				own.OnAnswer(term, from, sent)
			}
		},
		Expires: func(term uint64, found []session.Closing, late []time.Duration) {
			n.timings.ObserveExpiries(late)
			if own.Expires != nil {
				own.Expires(term, found)
			}
		},
	}
}

// startConsensus starts Raft.
func (n *Node) startConsensus() (*consensus.Consensus, error) {
	return consensus.Start(consensus.Config{
		Logger: n.options.Logger, Settings: n.cfg, Port: consensus.Port(n.ports.Raft()),
		Directory: n.dir, Positions: n.positions,
		Membership: n.membership, Admission: n.admission, OlderCopy: n.olderCopy, Voter: n.voter,
		State: n.view.State, Clocks: func() entry.Clocks { return n.roles.Clocks() },
		Fail: n.failure.fail, Failed: n.failure.happened, Cause: n.failure.cause,
		Watchdog: n.watchdog, Timings: n.timings, Tracer: n.traces.tracer,
		CommitTimeout: n.options.Platform.CommitTimeout, NoNotices: n.options.Platform.noNotices,
		Wrap: n.options.Platform.Disk,
	})
}

// Leads reports whether this node leads a term now.
func (n *Node) Leads() bool { return n.roles.Tracker() != nil }

// Digest returns the digest of the replicated state at an index, false when the node has not applied the index or has
// forgotten it: it knows the newest 1,024 (I6 same state).
func (n *Node) Digest(index uint64) ([16]byte, bool) { return n.view.DigestAt(index) }

// Follow serves the stream of another node, which the peer port has received.
func (n *Node) Follow(ctx context.Context, hello session.Hello, link peerport.LeaderLink) error {
	return n.roles.Follow(ctx, hello, link)
}

// Forward serves the stream of another node's writes, which the peer port has received.
func (n *Node) Forward(ctx context.Context, hello session.ForwardHello, link peerport.ForwardLink) error {
	return n.roles.Forward(ctx, hello, link)
}
