package node

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/transport/tracing"
)

// supervisor does what follows from what the watchdog finds. Each of its methods belongs to one goroutine.
//
// A node that stalls is cut off from Raft: its followers hear no more of it and elect another leader, and a leader
// counts it out. It takes no role, serves nobody, and says so. When the operation that stalled ends well, the node
// comes back by itself. That is safe, because Raft rests on no bound of how long a write takes: a node whose write was
// late is a slow node, and its connections are those of a node that was cut off. The node finds the newer term with the
// next message, and what it appended under the old term is overwritten unless a quorum has it (Ongaro and Ousterhout,
// "In search of an understandable consensus algorithm", section 5). A write that fails is another matter: the node
// ends, and comes back from its disk.
//
// A process that did not run for longer than the limit has nothing to come back from. Sessions were credited (A1) and
// promises dropped where they must be (S5). If no other node has taken its leadership meanwhile, this node hands it
// over, because the cause of the pause may come again.
type supervisor struct {
	logger    hclog.Logger
	pulse     session.Pulse
	watchdog  *watchdog.Watchdog
	consensus *consensus
	handover  *handover
	dir       *dir
	health    *health
	// elsewhere returns the highest index that another voter has applied, as far as is known.
	elsewhere func() uint64
}

// watch has the watchdog look at each period, and obeys, until ctx ends.
func (s *supervisor) watch(ctx context.Context) error {
	ticker := s.pulse.Ticker(s.watchdog.Period)
	defer ticker.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	var handing atomic.Bool
	s.watchdog.Start()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		s.watchdog.AppliedElsewhere(s.elsewhere())
		found := s.watchdog.Look()
		s.obey(found)
		if found.Paused > 0 {
			s.logger.Warn("the process did not run", "late", found.Paused, "limit", s.watchdog.Limit)
		}
		if found.Paused > 0 && s.consensus.raft.State() == raft.Leader && handing.CompareAndSwap(false, true) {
			wg.Go(func() {
				defer handing.Store(false)
				s.handover.stepAside(ctx)
			})
		}
	}
}

// obey steps out and comes back.
func (s *supervisor) obey(f watchdog.Finding) {
	for _, stall := range f.Ended {
		if stall.Reason == watchdog.OnDirectory {
			s.logger.Warn("the data directory is back", "was", stall.Doing, "lasted", stall.Lasted)
			continue
		}
		s.logger.Warn("stall is over", "reason", stall.Reason, "doing", stall.Doing, "lasted", stall.Lasted)
	}
	for _, stall := range f.Began {
		if stall.Reason == watchdog.OnDirectory {
			s.logger.Error("the data directory is not what it was, and the node steps out", "error", stall.Doing)
			continue
		}
		s.logger.Error("the node stalls and steps out until this ends", "reason", stall.Reason, "doing", stall.Doing,
			"lasted", stall.Lasted, "limit", s.watchdog.Limit)
	}
	switch {
	case len(f.Began) > 0:
		s.consensus.layer.Suspend()
		s.consensus.watch.again() // the node's role ends
		s.health.again()
	case len(f.Ended) > 0 && s.watchdog.Check() == nil:
		s.consensus.layer.Resume()
		s.consensus.watch.again() // a role may begin
		s.health.again()
	}
}

// watchDirectory tells the watchdog at each period whether the data directory is still in its place, until ctx ends. A
// look that hangs means a disk that hangs.
func (s *supervisor) watchDirectory(ctx context.Context) error {
	ticker := s.pulse.Ticker(s.watchdog.Period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		number := s.watchdog.Begin(watchdog.OnDisk, "looking at the data directory")
		err := s.dir.presence.check()
		s.watchdog.End(number)
		s.watchdog.Directory(err)
	}
}

// Stalled reports whether this node has stepped out because a write or an entry takes too long, or because its data
// directory is gone. It may come back by itself. Safe for concurrent use.
func (n *Node) Stalled() bool {
	stats := n.watchdog.Stats()
	return slices.Contains(stats.Stalls[:], true)
}

// watchedFSM is the state machine as Raft sees it. It tells the watchdog of each entry that is applied, but not of the
// restoring of a snapshot, which takes as long as the snapshot is large. It has followers told of each entry.
type watchedFSM struct {
	*fsm.State
	dog     *watchdog.Watchdog
	timings *timings
	tracer  *tracing.Tracer
	// landed is called after each entry.
	landed func(*raft.Log)
	// anchor makes the log go on from the snapshot that was restored; fatal ends the node when that fails.
	anchor func() error
	fatal  func(error)
}

var _ raft.ConfigurationStore = (*watchedFSM)(nil)

// Apply applies an entry.
func (w *watchedFSM) Apply(l *raft.Log) any {
	number := w.dog.BeginApply(l.Index)
	defer w.dog.End(number)
	began := time.Now()
	w.timings.landed.add(l.Index, began)
	result := w.State.Apply(l)
	ended := time.Now()
	w.timings.apply.Observe(ended.Sub(began).Seconds())
	w.tracer.Applied(l.Index, began, ended)
	w.landed(l)
	return result
}
