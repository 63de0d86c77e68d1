package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/learner"
	"holdfast/node/watchdog"
	"holdfast/session"
)

// watch has the watchdog look, and does what follows, until ctx ends.
//
// A node that stalls is cut off from Raft: its followers, who hear no more of it, elect another leader, and a leader
// counts it out. It takes no role, serves nobody, and says so. When what it waited for ends well, it comes back by
// itself, which is safe: Raft rests on no bound of how long a write takes, so a node whose write was late is one that
// was slow, its connections one that was cut off. It finds the newer term with the next message, and what it appended
// under the old one is overwritten unless a quorum has it (Ongaro and Ousterhout, "In search of an understandable
// consensus algorithm", section 5). A write that fails is another matter: the node ends, and comes back from its disk.
//
// A process that did not run for longer than the limit has nothing to come back from. Sessions were credited (A1) and
// promises dropped where they must be (S5). If nobody has taken its leadership meanwhile, it hands it over: what has
// held it up may do so again.
func (n *Node) watch(ctx context.Context) error {
	ticker := time.NewTicker(n.watchdog.Period)
	defer ticker.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	var handing atomic.Bool
	n.watchdog.Start()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		found := n.watchdog.Look()
		n.obey(found)
		if found.Paused > 0 {
			n.logger.Warn("the process did not run", "late", found.Paused, "limit", n.watchdog.Limit)
		}
		if found.Paused > 0 && n.consensus.raft.State() == raft.Leader && handing.CompareAndSwap(false, true) {
			wg.Go(func() {
				defer handing.Store(false)
				n.stepAside(ctx)
			})
		}
	}
}

// obey steps out and comes back.
func (n *Node) obey(f watchdog.Finding) {
	for _, s := range f.Ended {
		if s.Reason == watchdog.OnDirectory {
			n.logger.Warn("the data directory is back", "was", s.Doing, "lasted", s.Lasted)
			continue
		}
		n.logger.Warn("stall is over", "reason", s.Reason, "doing", s.Doing, "lasted", s.Lasted)
	}
	for _, s := range f.Began {
		if s.Reason == watchdog.OnDirectory {
			n.logger.Error("the data directory is not what it was, and the node steps out", "error", s.Doing)
			continue
		}
		n.logger.Error("the node stalls and steps out until this ends", "reason", s.Reason, "doing", s.Doing,
			"lasted", s.Lasted, "limit", n.watchdog.Limit)
	}
	switch {
	case len(f.Began) > 0:
		n.consensus.layer.Suspend()
	case len(f.Ended) > 0 && n.watchdog.Check() == nil:
		n.consensus.layer.Resume()
	}
}

// stepAside hands leadership over after the process did not run.
func (n *Node) stepAside(ctx context.Context) {
	n.logger.Warn("handing leadership over, as this process did not run")
	ctx, cancel := context.WithTimeout(ctx, n.watchdog.Limit)
	defer cancel()
	if err := n.HandOver(ctx); err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
		n.logger.Warn("leadership was not handed over", "error", err)
	}
}

// awaitEnd waits until the node no longer stalls, or ctx ends.
func (n *Node) awaitEnd(ctx context.Context) {
	ticker := time.NewTicker(n.watchdog.Period)
	defer ticker.Stop()
	for n.watchdog.Check() != nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// serves returns nil when the node serves, or why not. A node that stalls may not be asked for anything else: its state
// may be locked.
func (n *Node) serves() error {
	if err := n.watchdog.Check(); err != nil {
		return err
	}
	if err := n.admission.check(); err != nil {
		return err
	}
	if err := n.server.Ready(); err != nil {
		return n.explained(err)
	}
	if !n.votes() { // a leader of an older release does not say
		return learner.ErrNoVote
	}
	return nil
}

// watchedFSM tells the watchdog of each entry that is applied. A snapshot's restoring takes as long as its size wants.
type watchedFSM struct {
	*fsm.State
	dog *watchdog.Watchdog
	// anchor has the log go on from the snapshot that was restored; fatal ends the node when it does not.
	anchor func() error
	fatal  func(error)
}

var _ raft.ConfigurationStore = (*watchedFSM)(nil)

// Apply applies an entry.
func (w *watchedFSM) Apply(l *raft.Log) any {
	number := w.dog.Begin(watchdog.OnApply, "applying a log entry")
	defer w.dog.End(number)
	return w.State.Apply(l)
}
