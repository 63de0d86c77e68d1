package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/transport/raftnet"
)

const (
	// commitTimeout is how soon a quiet leader tells followers of a commit.
	commitTimeout = 10 * time.Millisecond
	// maxAppendEntries bounds one append request.
	maxAppendEntries = 512
	// raftTimeout bounds one request between nodes, and the handshake before the first.
	raftTimeout = 1500 * time.Millisecond
)

// consensus is Raft with what it stands on.
type consensus struct {
	raft      *raft.Raft
	stores    *stores
	layer     *raftnet.Layer
	transport *raft.NetworkTransport
	// watch says when leadership may have changed.
	watch *leadership
}

// startRaft starts Raft over listener; every node bootstraps the same first configuration, which a node that has state
// ignores.
func (n *Node) startRaft(listener net.Listener) (*consensus, error) {
	self, _ := n.cfg.Self()
	logger := n.logger.Named("raft")
	stores, err := openStores(n.dir.Path, logger, n.fail)
	if err != nil {
		return nil, err
	}
	layer := raftnet.New(raftnet.Config{
		ClusterID:        n.cfg.ClusterID,
		Node:             n.cfg.Node,
		Advertise:        self.Raft,
		Listener:         listener,
		Dial:             n.network.Dial,
		HandshakeTimeout: raftTimeout,
		Logger:           logger,
	})
	trans := raftnet.Transport(layer, raftTimeout)
	c := &consensus{stores: stores, layer: layer, transport: trans, watch: newLeadership()}
	c.raft, err = c.newRaft(n.raftConfig(logger, c.watch.notify), n.state)
	if err != nil {
		c.watch.close()
		return nil, errors.Join(fmt.Errorf("starting Raft from %s: %w: if its snapshots or its log are corrupt or missing, %s",
			n.dir.Path, err, recovery), trans.Close(), layer.Close(), stores.close())
	}
	err = c.raft.BootstrapCluster(n.bootstrap()).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return nil, errors.Join(fmt.Errorf("writing the first configuration: %w", err), c.stop(context.Background())) //nolint:forbidigo // nothing runs yet that could be waited for
	}
	c.watch.observe(c.raft)
	return c, nil
}

// newRaft turns a panic of Raft into an error: it has one for a log that does not go on where the newest snapshot ends.
func (c *consensus) newRaft(cfg *raft.Config, state raft.FSM) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("log and snapshots do not fit together: %v", p)
		}
	}()
	return raft.NewRaft(cfg, state, c.stores.logs, c.stores.stable, c.stores.snapshots, c.transport)
}

// abandon cuts Raft off from the other nodes at once, so that a leader whose disk hangs does not hold its followers.
func (c *consensus) abandon() error {
	c.transport.CloseStreams()
	return c.layer.Close()
}

func (n *Node) raftConfig(logger hclog.Logger, notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = serverID(n.cfg.Node)
	c.HeartbeatTimeout = n.cfg.RaftHeartbeatTimeout
	c.ElectionTimeout = n.cfg.RaftElectionTimeout
	c.LeaderLeaseTimeout = n.cfg.RaftLeaseTimeout
	c.CommitTimeout = commitTimeout
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = false // the proposer has one entry in flight: there is nothing to batch
	c.SnapshotInterval = n.cfg.SnapshotInterval
	c.SnapshotThreshold = n.cfg.SnapshotThreshold
	c.TrailingLogs = n.cfg.TrailingLogs
	c.NotifyCh = notify
	c.Logger = logger
	return c
}

func (n *Node) bootstrap() raft.Configuration {
	var c raft.Configuration
	for _, p := range n.cfg.Peers {
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter,
			ID:       serverID(p.Node),
			Address:  raft.ServerAddress(p.Raft),
		})
	}
	return c
}

// stop ends Raft and closes what it stood on. It waits for Raft until ctx ends: a disk that hangs must not hang the stop.
func (c *consensus) stop(ctx context.Context) error {
	c.watch.forget(c.raft)
	down := make(chan error, 1)
	go func() { down <- c.raft.Shutdown().Error() }()
	var err error
	select {
	case err = <-down:
	case <-ctx.Done():
		// Raft may hang on its disk for good. Its connections need not.
		return errors.Join(fmt.Errorf("stopping Raft: %w", ctx.Err()), c.layer.Close())
	}
	c.watch.close()
	c.transport.CloseStreams()
	return errors.Join(err, c.transport.Close(), c.layer.Close(), c.stores.close())
}

// leadership turns Raft's two ways of telling about leaders into one: "look again".
type leadership struct {
	// notify is Raft's NotifyCh, observed takes what its observer sees.
	notify   chan bool
	observed chan raft.Observation
	observer *raft.Observer
	changed  chan struct{}
	stopped  chan struct{}
	ended    chan struct{}
}

func newLeadership() *leadership {
	l := &leadership{
		notify:   make(chan bool, 1),
		observed: make(chan raft.Observation, 16),
		changed:  make(chan struct{}, 1),
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
		select {
		case l.changed <- struct{}{}:
		default:
		}
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

// close ends the relaying; only after Raft has ended, which blocks on a NotifyCh that nobody reads.
func (l *leadership) close() {
	close(l.stopped)
	<-l.ended
}
