package health

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/watchdog"
	"holdfast/session"
)

// Supervisor acts on the findings of the watchdog. Each of its methods belongs to one goroutine.
//
// A node that stalls is cut off from Raft: its followers receive nothing more from it and elect another leader, and a
// leader regards it as lost. It takes no role, serves no client, and reports that. When the stalled operation ends
// well, the node comes back by itself. This is safe, because Raft does not limit the duration of a write: a node whose
// write was late is a slow node, and its connections are like those of a node that was cut off. The node learns the
// newer term from the next message, and entries that it appended under the old term are overwritten unless a quorum has
// them (Ongaro and Ousterhout, "In search of an understandable consensus algorithm", section 5). A write that fails is
// different: the node ends, and starts again from its disk.
//
// After a pause of the process that was longer than the limit, there is no stall to end. The time was credited to the
// sessions (A1 accountable clock), and promises were dropped where they had to be (S5 suspended machines). If no other
// node has become leader meanwhile, this node transfers leadership, because the cause of the pause may recur.
type Supervisor struct {
	Logger   hclog.Logger
	Pulse    session.Pulse
	Watchdog *watchdog.Watchdog
	// AppliedElsewhere returns the highest index that another voter has reported as applied.
	AppliedElsewhere func() uint64
	// CheckDirectory returns an error when the data directory is not in its place.
	CheckDirectory func() error
	// Suspend cuts the node off from Raft and ends its role; Resume reverts this.
	Suspend, Resume func()
	// Leads reports whether this node leads, and Transfer transfers leadership after a pause.
	Leads    func() bool
	Transfer func(context.Context)
}

// Run makes the watchdog check at each period, and acts on its findings, until ctx ends.
func (s *Supervisor) Run(ctx context.Context) error {
	ticker := s.Pulse.Ticker(s.Watchdog.Period)
	defer ticker.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	var transferring atomic.Bool
	s.Watchdog.Start()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		s.Watchdog.AppliedElsewhere(s.AppliedElsewhere())
		found := s.Watchdog.Scan()
		s.log(found)
		switch {
		case len(found.Began) > 0:
			s.Suspend()
		case len(found.Ended) > 0 && s.Watchdog.Check() == nil:
			s.Resume()
		}
		if found.Paused > 0 && s.Leads() && transferring.CompareAndSwap(false, true) {
			wg.Go(func() {
				defer transferring.Store(false)
				s.Transfer(ctx)
			})
		}
	}
}

func (s *Supervisor) log(f watchdog.Finding) {
	for _, stall := range f.Ended {
		if stall.Reason == watchdog.OnDirectory {
			s.Logger.Warn("the data directory is back", "was", stall.Doing, "lasted", stall.Lasted)
			continue
		}
		s.Logger.Warn("stall is over", "reason", stall.Reason, "doing", stall.Doing, "lasted", stall.Lasted)
	}
	for _, stall := range f.Began {
		if stall.Reason == watchdog.OnDirectory {
			s.Logger.Error("the data directory has changed, and the node steps out", "error", stall.Doing)
			continue
		}
		s.Logger.Error("the node stalls and steps out until this ends", "reason", stall.Reason, "doing", stall.Doing,
			"lasted", stall.Lasted, "limit", s.Watchdog.Limit)
	}
	if f.Paused > 0 {
		s.Logger.Warn("the process did not run", "late", f.Paused, "limit", s.Watchdog.Limit)
	}
}

// WatchDirectory reports to the watchdog at each period whether the data directory is still in its place, until ctx
// ends. A check that hangs means a disk that hangs.
func (s *Supervisor) WatchDirectory(ctx context.Context) error {
	ticker := s.Pulse.Ticker(s.Watchdog.Period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		number := s.Watchdog.Begin(watchdog.OnDisk, "looking at the data directory")
		err := s.CheckDirectory()
		s.Watchdog.End(number)
		s.Watchdog.Directory(err)
	}
}
