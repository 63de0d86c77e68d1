// Package consensus runs Raft: over its stores in the data directory, on its network, with the node's state as the
// state machine. The proposer on top of it puts the node's commands into the log. [Start] starts all of that, and
// [Consensus.Stop] ends it.
package consensus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/fsm/entry"
	"holdfast/fsm/proposer"
	"holdfast/node/config"
	"holdfast/node/election"
	"holdfast/node/members"
	"holdfast/node/storage"
	"holdfast/node/watchdog"
	"holdfast/transport/raftnet"
	"holdfast/transport/tracing"
)

// Config is what [Start] starts Raft from.
type Config struct {
	Logger hclog.Logger
	// Settings are complete.
	Settings config.Config
	Port     Port
	// Directory has the stores of Raft, Positions how far other directories have come.
	Directory *storage.Dir
	Positions *storage.Positions
	// Membership, Admission and OlderCopy judge what other nodes say of themselves and of this node.
	Membership *members.Membership
	Admission  *members.Admission
	OlderCopy  *members.OlderCopyCheck
	// Voter makes Raft campaign before its timeouts.
	Voter *election.Voter
	// State is the state machine.
	State *fsm.State
	// Clocks returns what the proposer puts into an entry (D3 log clock).
	Clocks func() entry.Clocks

	// Fail ends the node because of an error. Failed is closed once the node fails, and Cause returns why, nil before.
	Fail   func(error)
	Failed <-chan struct{}
	Cause  func() error
	// Watchdog observes each write and each applied entry. Timings measure them.
	Watchdog *watchdog.Watchdog
	Timings  Timings
	// Tracer makes the spans of the log; nil makes none.
	Tracer *tracing.Tracer

	// CommitTimeout is how soon a follower learns of a commit without a notice (R7 commit notices); 0 stands for the one
	// of the settings. NoNotices sends no notices, for a test of that.
	CommitTimeout time.Duration
	NoNotices     bool
	// Wrap, if set, wraps the stores of Raft's log and votes: see [storage.Options].
	Wrap func(raft.LogStore, raft.StableStore) (raft.LogStore, raft.StableStore)
}

// Port has the listener for the Raft of other nodes, and connects to theirs.
type Port struct {
	Listener net.Listener
	Dial     func(ctx context.Context, address string) (net.Conn, error)
	// MaxHandshakes bounds the connections that have not said who they are.
	MaxHandshakes int
}

// Timings measure the log.
type Timings interface {
	// ApplyBegins is called when this node begins to apply an entry, ObserveApply and ObserveSync with the time that an
	// entry and a write of entries took.
	ApplyBegins(index uint64, now time.Time)
	ObserveApply(took time.Duration)
	ObserveSync(took time.Duration)
	// Raft returns r, with a measurement of the time from each proposal to its commit.
	Raft(r proposer.Raft) proposer.Raft
}

// Consensus is Raft with its stores and its network, and the proposer on top of it. Safe for concurrent use.
type Consensus struct {
	cfg *Config
	// Raft says who leads and who is a member, Proposer puts commands into the log, and Network asks other nodes.
	Raft     *raft.Raft
	Proposer *proposer.Proposer
	Network  *raftnet.Layer
	// Store has the log and the snapshots.
	Store *storage.Store

	transport *raftnet.Checked
	// notice notifies followers of commits.
	notice *notice
	// watch says when leadership may have changed.
	watch *leadership
	held  *held
	// stopping is set before Raft stops.
	stopping *atomic.Bool
}

// fatalWait is how long a failed start may take to say what it was doing.
const fatalWait = time.Second

// errHeld says that Raft's start ended at a write that failed.
var errHeld = errors.New("a write failed while Raft was starting")

// Start starts Raft. A write that fails is never answered, not even while Raft starts: the goroutine that made the
// write ends instead.
func Start(cfg Config) (*Consensus, error) {
	var c *Consensus
	held := newHeld()
	started := make(chan error, 1)
	go func() {
		err := errHeld
		defer func() { started <- err }()
		c, err = start(&cfg, held)
	}()
	select {
	case err := <-started:
		return c, err // also when the node has failed already: its Run says so
	case <-cfg.Failed:
	}
	held.release()
	timer := time.NewTimer(fatalWait)
	defer timer.Stop()
	select {
	case err := <-started:
		switch {
		case errors.Is(err, errHeld):
			return nil, cfg.Cause()
		case err != nil: // the state machine refused, and Raft's error says more
			return nil, errors.Join(err, cfg.Cause())
		}
		//nolint:forbidigo // the node never ran: there is no context to stop it with
		bound, done := context.WithTimeout(context.Background(), fatalWait)
		defer done()
		return nil, errors.Join(cfg.Cause(), c.Stop(bound))
	case <-timer.C: // the start hangs, and keeps what it has opened
		return nil, cfg.Cause()
	}
}

// Changed gets a token after each change of what Raft says of leaders, for one reader.
func (c *Consensus) Changed() <-chan struct{} { return c.watch.changed }

// NoticeStats counts the notices of commits.
func (c *Consensus) NoticeStats() raftnet.NoticeStats { return c.notice.notices.Stats() }

// RunElections has this node campaign before Raft's timeouts, until ctx ends.
func (c *Consensus) RunElections(ctx context.Context) error {
	return c.cfg.Voter.Run(ctx, c.Network, c.transport, c.watch.news)
}

// RunSnapshots takes snapshots of the state, until ctx ends.
func (c *Consensus) RunSnapshots(ctx context.Context) error {
	return c.Store.RunSnapshots(ctx, c.Raft, c.cfg.Logger)
}

// Suspend cuts this node off from the Raft of the others until Resume, and has its role end.
func (c *Consensus) Suspend() {
	c.Network.Suspend()
	c.watch.again()
}

// Resume ends Suspend: a role may begin.
func (c *Consensus) Resume() {
	c.Network.Resume()
	c.watch.again()
}

// Leave is Suspend for good.
func (c *Consensus) Leave() {
	c.Network.Leave()
	c.watch.again()
}

// Abandon cuts Raft off from the other nodes at once, so that a leader with a hanging disk does not keep its followers
// from electing.
func (c *Consensus) Abandon() error {
	c.transport.CloseStreams()
	return c.Network.Close()
}

// appliedTimeout is how long a node that stops gives its state to take what Raft has committed, failedWait the same
// after a failure.
const (
	appliedTimeout = 5 * time.Second
	failedWait     = 200 * time.Millisecond
)

// AwaitApplied lets the state take what Raft has committed of the proposer's.
func (c *Consensus) AwaitApplied(ctx context.Context) {
	within := appliedTimeout
	if c.cfg.Cause() != nil { // a disk that has failed may answer nothing for good
		within = failedWait
	}
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c.Proposer.WaitUnanswered(ctx)
}

// Stop ends Raft, and closes its network and its stores. It waits for Raft until ctx ends, so that a hanging disk does
// not hang the stop.
func (c *Consensus) Stop(ctx context.Context) error {
	c.watch.forget(c.Raft)
	c.stopping.Store(true)
	down := make(chan error, 1)
	go func() {
		ended := c.Raft.Shutdown()
		// Shutdown may wait as long as a follower takes to receive a snapshot, unless its connections end.
		c.Network.Suspend()
		c.held.release()
		down <- errors.Join(ended.Error(), c.close())
	}()
	select {
	case err := <-down:
		return err
	case <-ctx.Done():
		// Raft may hang on its disk for good, but its connections can be closed. The goroutine above closes the rest if
		// the disk comes back.
		return errors.Join(fmt.Errorf("stopping Raft: %w", ctx.Err()), c.Network.Close())
	}
}

// close closes the network and the stores of Raft, after Raft has ended or when it never began.
func (c *Consensus) close() error {
	c.watch.close()
	c.transport.CloseStreams()
	return errors.Join(c.transport.Close(), c.Network.Close(), c.Store.Close())
}
