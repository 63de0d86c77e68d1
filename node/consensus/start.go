package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/fsm/proposer"
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
	// applyTimeout is how long a log entry may wait to be committed before its outcome counts as unknown. It is longer
	// than an election takes, so that most requests outlive one.
	applyTimeout = 5 * time.Second
)

// start starts Raft. The log of every founder begins with the same configuration; a node that has a log already has it.
// A goroutine whose write fails is held.
func start(cfg *Config, held *held) (_ *Consensus, err error) {
	settings := &cfg.Settings
	self, _ := settings.Self()
	stopping := new(atomic.Bool)
	logger := newRaftLogger(cfg.Logger.Named("raft"), func() bool { return cfg.Cause() != nil || stopping.Load() })
	store, err := openStore(cfg, logger, held)
	if err != nil {
		return nil, err
	}
	// Raft remembers a vote by its candidate's address, and repeats the vote to any server that asks from that address
	// in the same term. So the address names the directory too: a node that has moved there since is another candidate.
	advertised := raftnet.At(self.Raft, cfg.Membership.OwnDirectory())
	layer := raftnet.New(raftnet.Config{
		ClusterID:        settings.ClusterID,
		Settings:         settings.ClusterSettings(),
		Node:             settings.Node,
		Member:           cfg.Membership.MayGreet,
		Advertise:        string(advertised),
		Listener:         cfg.Port.Listener,
		Dial:             cfg.Port.Dial,
		MaxHandshakes:    cfg.Port.MaxHandshakes,
		HandshakeTimeout: raftTimeout,
		Key:              cfg.Directory.Identity().Key,
		Elsewhere:        cfg.Membership.RaftAddressOf,
		Known:            cfg.Positions.Position,
		OnPosition:       cfg.OlderCopy.CheckPosition,
		Waits:            true,
		Meet:             cfg.Admission.Answer,
		OnQuery:          cfg.Voter.Answer,
		Linked:           cfg.Voter.NoteLinks,
		Logger:           logger,
	})
	cfg.OlderCopy.SetNetwork(layer)
	bare := raftnet.NewTransport(layer, raftTimeout)
	c := &Consensus{
		cfg: cfg, Store: store, Network: layer, notice: newNotice(bare, cfg.Membership), watch: newLeadership(), held: held,
		stopping: stopping,
		transport: raftnet.NewChecked(bare, raftnet.Checks{
			Term: cfg.Admission.KnownTerm, Command: entry.CheckFrame, Saw: cfg.Positions.Record, Logger: logger,
		}),
	}
	defer func() { // runs also when this goroutine ends at a write that failed
		if c.Raft == nil {
			err = errors.Join(err, c.close())
		}
	}()
	first, err := cfg.Membership.FirstConfiguration(cfg.Admission.FoundedHere())
	if begun, _ := raft.HasExistingState(store.Log(), store.Stable(), store.Snapshots()); err != nil && !begun {
		return nil, err
	}
	c.Raft, err = c.newRaft(raftConfig(cfg, logger, c.watch.notify), first,
		&watchedFSM{
			cfg.State, cfg.Watchdog, cfg.Timings, cfg.Tracer, c.notice.landed, store.Restored,
			cfg.Fail,
		})
	if err != nil {
		if why := store.Refusal(); why != nil { // Raft says only that it could load no snapshot
			return nil, fmt.Errorf("starting Raft from %s: %w", cfg.Directory.Path(), why)
		}
		return nil, fmt.Errorf("starting Raft from %s: %w: if its snapshots or its log are corrupt or missing, %s",
			cfg.Directory.Path(), err, storage.Recovery)
	}
	store.Started(c.Raft)
	c.watch.observe(c.Raft)
	cfg.Membership.SetRaft(c.Raft)
	c.Proposer = proposer.New(proposer.Config{
		Logger: cfg.Logger, Timeout: applyTimeout, Clocks: cfg.Clocks,
	}, cfg.Timings.Raft(c.Raft))
	if !cfg.NoNotices {
		c.notice.proposer.Store(c.Proposer)
	}
	return c, nil
}

// openStore opens Raft's stores in the data directory.
func openStore(cfg *Config, logger hclog.Logger, held *held) (*storage.Store, error) {
	return storage.Open(cfg.Directory, storage.Options{
		Logger: logger, Halt: func(err error) {
			cfg.Fail(err)
			held.hold()
		},
		Watch: func(doing string) func() {
			number := cfg.Watchdog.Begin(watchdog.OnDisk, doing)
			return func() { cfg.Watchdog.End(number) }
		},
		Synced:        cfg.Timings.ObserveSync,
		Applied:       cfg.Positions.EverApplied,
		CachedEntries: 2 * maxAppendEntries,
		LogBytes:      cfg.Settings.Tuning.LogBytes, TrailingLogs: cfg.Settings.Tuning.TrailingLogs,
		Wrap: cfg.Wrap,
	})
}

// newRaft makes Raft. It turns a panic into an error: Raft panics when the log does not go on where the newest snapshot
// ends. newRaft writes the first configuration before Raft runs, so that a write that fails holds this goroutine.
func (c *Consensus) newRaft(cfg *raft.Config, first *raft.Configuration, state raft.FSM) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("log and snapshots do not fit together: %v", p)
		}
	}()
	if first != nil {
		if err = c.Store.Bootstrap(cfg, c.transport, *first); err != nil {
			return nil, fmt.Errorf("writing the first configuration: %w", err)
		}
	}
	return raft.NewRaft(cfg, state, aheadLogs{c.Store.Log(), c.notice}, c.Store.Stable(), c.Store.Snapshots(), c.transport)
}

func raftConfig(cfg *Config, logger hclog.Logger, notify chan<- bool) *raft.Config {
	c := cfg.Settings.RaftConfig()
	c.LocalID = raftnet.ServerID(cfg.Settings.Node, cfg.Membership.OwnDirectory())
	c.CommitTimeout = cmp.Or(cfg.CommitTimeout, c.CommitTimeout)
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = false // the proposer has one entry in flight, so that there is nothing to batch
	c.NotifyCh = notify
	c.Logger = logger
	return c
}
