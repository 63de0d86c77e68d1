package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/fsm/proposer"
	"holdfast/node/members"
	"holdfast/node/ports"
	"holdfast/node/storage"
	"holdfast/node/watchdog"
	"holdfast/transport/raftnet"
)

const (
	// maxAppendEntries bounds the entries that Raft reads from the log for one request. raftnet sends as many of them
	// as fit into [raftnet.MaxRequest]. It bounds the memory for one request: 16 MiB with full entries of 256 KiB, for
	// each follower that is behind (W7 size bounds), and 96 MiB where each entry is one command of the largest size. A
	// follower syncs once for each request: one whose disk takes 100 ms for that takes 640 entries a second. With 16
	// entries in a request it takes 160, and never catches up with a leader that makes 250.
	maxAppendEntries = 64
	// raftTimeout bounds one request between nodes, and the handshake before the first.
	raftTimeout = 1500 * time.Millisecond
)

// consensus is Raft with its stores and its network, and the proposer on top of it.
type consensus struct {
	raft      *raft.Raft
	store     *storage.Store
	layer     *raftnet.Layer
	transport *raftnet.Checked
	// notice has followers told of commits.
	notice *notice
	// watch says when leadership may have changed.
	watch *leadership
	// olderCopy is told what other nodes know of this node's directory.
	olderCopy *members.OlderCopyCheck
	// proposer puts commands into Raft's log.
	proposer *proposer.Proposer
	// release ends the goroutines that are held at a failed write.
	release func()
	// stopping is set before Raft stops.
	stopping *atomic.Bool
}

// startRaft starts Raft on its port. The log of every founder begins with the same configuration; a node that has a
// log already has it.
func (n *Node) startRaft(port ports.RaftPort) (_ *consensus, err error) {
	self, _ := n.cfg.Self()
	stopping := new(atomic.Bool)
	logger := newRaftLogger(n.options.Logger.Named("raft"), n.failure, stopping)
	store, err := n.openStore(logger)
	if err != nil {
		return nil, err
	}
	// Raft remembers a vote by its candidate's address, and repeats the vote to any server that asks from that address
	// in the same term. So the address names the directory too: a node that has moved there since is another candidate.
	advertised := raftnet.At(self.Raft, n.membership.OwnDirectory())
	older := members.NewOlderCopyCheck(n.membership, n.dir, filepath.Join(n.dir.Path(), storage.OlderCopyFolder),
		n.failure.fail)
	layer := raftnet.New(raftnet.Config{
		ClusterID:        n.cfg.ClusterID,
		Settings:         n.cfg.ClusterSettings(),
		Node:             n.cfg.Node,
		Member:           n.membership.MayGreet,
		Advertise:        string(advertised),
		Listener:         port.Listener,
		Dial:             port.Dial,
		MaxHandshakes:    port.MaxHandshakes,
		HandshakeTimeout: raftTimeout,
		Key:              n.dir.Identity().Key,
		Elsewhere:        n.membership.RaftAddressOf,
		Known:            n.positions.Position,
		OnPosition:       older.CheckPosition,
		Waits:            true,
		Meet:             n.admission.Answer,
		OnQuery:          n.voter.Answer,
		Linked:           n.voter.NoteLinks,
		Logger:           logger,
	})
	older.SetNetwork(layer)
	bare := raftnet.NewTransport(layer, raftTimeout)
	c := &consensus{
		store: store, layer: layer, notice: newNotice(bare, n.membership), watch: newLeadership(), olderCopy: older,
		release: n.failure.release, stopping: stopping,
		transport: raftnet.NewChecked(bare, raftnet.Checks{
			Term: n.admission.KnownTerm, Command: entry.CheckFrame, Saw: n.positions.Record, Logger: logger,
		}),
	}
	defer func() { // runs also when this goroutine ends at a write that failed
		if c.raft == nil {
			err = errors.Join(err, c.close())
		}
	}()
	first, err := n.membership.FirstConfiguration(n.admission.FoundedHere())
	if begun, _ := raft.HasExistingState(store.Log(), store.Stable(), store.Snapshots()); err != nil && !begun {
		return nil, err
	}
	c.raft, err = c.newRaft(n.raftConfig(logger, c.watch.notify), first,
		&watchedFSM{
			n.view.State, n.watchdog, n.timings, n.traces.tracer, c.notice.landed, store.Restored,
			n.failure.fail,
		})
	if err != nil {
		if why := store.Refusal(); why != nil { // Raft says only that it could load no snapshot
			return nil, fmt.Errorf("starting Raft from %s: %w", n.dir.Path(), why)
		}
		return nil, fmt.Errorf("starting Raft from %s: %w: if its snapshots or its log are corrupt or missing, %s",
			n.dir.Path(), err, storage.Recovery)
	}
	store.Started(c.raft)
	c.watch.observe(c.raft)
	n.membership.SetRaft(c.raft)
	return c, nil
}

// openStore opens Raft's stores in the data directory.
func (n *Node) openStore(logger hclog.Logger) (*storage.Store, error) {
	return storage.Open(n.dir, storage.Options{
		Logger: logger, Halt: n.failure.halt,
		Watch: func(doing string) func() {
			number := n.watchdog.Begin(watchdog.OnDisk, doing)
			return func() { n.watchdog.End(number) }
		},
		Synced:        n.timings.ObserveSync,
		Applied:       n.positions.EverApplied,
		CachedEntries: 2 * maxAppendEntries,
		LogBytes:      n.cfg.Tuning.LogBytes, TrailingLogs: n.cfg.Tuning.TrailingLogs,
		Wrap: n.options.Platform.Disk,
	})
}

// newRaft makes Raft. It turns a panic into an error: Raft panics when the log does not go on where the newest snapshot
// ends. newRaft writes the first configuration before Raft runs, so that a write that fails holds this goroutine.
func (c *consensus) newRaft(cfg *raft.Config, first *raft.Configuration, state raft.FSM) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("log and snapshots do not fit together: %v", p)
		}
	}()
	if first != nil {
		if err = c.store.Bootstrap(cfg, c.transport, *first); err != nil {
			return nil, fmt.Errorf("writing the first configuration: %w", err)
		}
	}
	return raft.NewRaft(cfg, state, aheadLogs{c.store.Log(), c.notice}, c.store.Stable(), c.store.Snapshots(), c.transport)
}

// abandon cuts Raft off from the other nodes at once, so that a leader with a hanging disk does not keep its followers
// from electing.
func (c *consensus) abandon() error {
	c.transport.CloseStreams()
	return c.layer.Close()
}

func (n *Node) raftConfig(logger hclog.Logger, notify chan<- bool) *raft.Config {
	c := n.cfg.RaftConfig()
	c.LocalID = raftnet.ServerID(n.cfg.Node, n.membership.OwnDirectory())
	c.CommitTimeout = cmp.Or(n.options.Platform.CommitTimeout, c.CommitTimeout)
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = false // the proposer has one entry in flight, so that there is nothing to batch
	c.NotifyCh = notify
	c.Logger = logger
	return c
}

// appliedTimeout is how long a node that stops gives its state to take what Raft has committed, failedWait the same
// after a failure.
const (
	appliedTimeout = 5 * time.Second
	failedWait     = 200 * time.Millisecond
)

// awaitApplied lets the state take what Raft has committed of the proposer's.
func (c *consensus) awaitApplied(ctx context.Context, within time.Duration) {
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c.proposer.WaitUnanswered(ctx)
}

// stop ends Raft, and closes its network and its stores. It waits for Raft until ctx ends, so that a hanging disk does
// not hang the stop.
func (c *consensus) stop(ctx context.Context) error {
	c.watch.forget(c.raft)
	c.stopping.Store(true)
	down := make(chan error, 1)
	go func() {
		ended := c.raft.Shutdown()
		// Shutdown may wait as long as a follower takes to receive a snapshot, unless its connections end.
		c.layer.Suspend()
		c.release()
		down <- errors.Join(ended.Error(), c.close())
	}()
	select {
	case err := <-down:
		return err
	case <-ctx.Done():
		// Raft may hang on its disk for good, but its connections can be closed. The goroutine above closes the rest if
		// the disk comes back.
		return errors.Join(fmt.Errorf("stopping Raft: %w", ctx.Err()), c.layer.Close())
	}
}

// close closes the network and the stores of Raft, after Raft has ended or when it never began.
func (c *consensus) close() error {
	c.watch.close()
	c.transport.CloseStreams()
	return errors.Join(c.transport.Close(), c.layer.Close(), c.store.Close())
}

// leadership joins Raft's two sources of news about leaders into one signal: look again.
type leadership struct {
	// notify is Raft's NotifyCh. observed has what Raft's observer sees.
	notify   chan bool
	observed chan raft.Observation
	observer *raft.Observer
	// changed and news get a token after each change: changed is for the role loop, news for [election.Voter].
	changed chan struct{}
	news    chan struct{}
	stopped chan struct{}
	ended   chan struct{}
}

func newLeadership() *leadership {
	l := &leadership{
		notify:   make(chan bool, 1),
		observed: make(chan raft.Observation, 16),
		changed:  make(chan struct{}, 1),
		news:     make(chan struct{}, 1),
		stopped:  make(chan struct{}),
		ended:    make(chan struct{}),
	}
	go l.relay()
	return l
}

func (l *leadership) relay() {
	defer close(l.ended)
	for {
		select {
		case <-l.notify:
		case <-l.observed:
		case <-l.stopped:
			return
		}
		l.again()
		signal(l.news)
	}
}

// again has the role loop look again. It does not wait.
func (l *leadership) again() { signal(l.changed) }

// signal leaves a token in a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *leadership) observe(r *raft.Raft) {
	l.observer = raft.NewObserver(l.observed, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		default:
			return false
		}
	})
	r.RegisterObserver(l.observer)
}

func (l *leadership) forget(r *raft.Raft) {
	if l.observer != nil {
		r.DeregisterObserver(l.observer)
	}
}

// close ends the relaying. Raft must have ended: it blocks on a NotifyCh that nobody reads.
func (l *leadership) close() {
	close(l.stopped)
	<-l.ended
}
