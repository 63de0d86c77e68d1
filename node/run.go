package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"holdfast/session"
	"holdfast/transport/clientport"
)

// Run serves until ctx ends, and then stops in order: it transfers leadership and sends its clients to other nodes,
// within DrainTimeout. Then it refuses new requests, lets requests under way end, and closes what New opened, within
// ShutdownTimeout. Its error says why the node could not go on; it is nil after an orderly stop.
func (n *Node) Run(ctx context.Context) error {
	// The parts outlive ctx: they are stopped one after the other.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	parts := n.start(running)
	select {
	case <-ctx.Done():
		n.options.Logger.Info("stopping")
		n.leave(running)
	case <-n.failure.happened:
		if err := n.consensus.Abandon(); err != nil {
			n.options.Logger.Warn("closing Raft's port", "error", err)
		}
	}
	bound, done := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.Tuning.ShutdownTimeout)
	defer done()
	ended := make(chan struct{})
	go func() { parts.Wait(); close(ended) }()
	err := n.stop(bound, func() {
		cancel()
		select {
		case <-ended:
		case <-bound.Done():
		}
	})
	if cause := n.failure.cause(); cause != nil {
		// What failed may hang for good. The process is about to end, and that ends it too.
		return errors.Join(cause, err, n.dir.Close())
	}
	kept := make(chan struct{})
	go func() { n.positions.Save(); close(kept) }() // what was acknowledged while the parts ended
	select {
	case <-kept:
	case <-bound.Done():
	}
	n.ports.CloseAudit()
	n.traces.close() //nolint:contextcheck // it has a bound of its own
	return errors.Join(err, n.dir.Close())
}

// leave drains this node before it stops, unless it fails meanwhile. A node whose disk hangs gives nothing away.
func (n *Node) leave(ctx context.Context) {
	if n.watchdog.Waits() > n.cfg.Sessions.HeartbeatInterval {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan struct{})
	go func() { n.drain.Stop(ctx); close(left) }()
	select {
	case <-left:
	case <-n.failure.happened:
		cancel()
		<-left
	}
}

// start starts the parts. They run until ctx ends, and the ports until they are stopped; a part that ends with an error
// ends the node.
func (n *Node) start(ctx context.Context) *sync.WaitGroup {
	var parts sync.WaitGroup
	start := func(name string, run func() error) {
		parts.Go(func() {
			if err := run(); err != nil {
				n.failure.fail(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	supervisor := n.newSupervisor()
	start("proposer", func() error { return n.consensus.Proposer.Run(ctx) })
	start("learner", func() error { return n.server.Run(ctx) })
	n.ports.Start(ctx, start)
	start("health", func() error { return n.health.Run(ctx) })
	start("disk", func() error { return n.resources.WatchDisk(ctx) })
	start("resources", func() error { return n.resources.Run(ctx) })
	start("admission", func() error { return n.exchange.Run(ctx) })
	start("acknowledged", func() error { return n.positions.Run(ctx) })
	start("directory", func() error { return supervisor.WatchDirectory(ctx) })
	start("watchdog", func() error { return supervisor.Run(ctx) })
	start("snapshots", func() error { return n.consensus.RunSnapshots(ctx) })
	start("scrub", func() error { return n.replica.scrub(ctx) })
	start("succession", func() error { return n.consensus.RunElections(ctx) })
	start("drain", func() error { return n.drain.Run(ctx) })
	start("roles", func() error { return n.roles.Run(ctx) })
	return &parts
}

// stop ends the parts in the order in which they need each other. quiet ends the parts that run on Raft: the roles and
// the proposer must end before Raft does, so that nobody waits for an entry that is never answered.
func (n *Node) stop(ctx context.Context, quiet func()) error {
	n.server.Stop()
	n.ports.SetServing(clientport.HealthNode, false)
	if !n.failure.failed() {
		// Another node leads before the clients of this node come to it, so that they lose no time.
		if err := n.TransferLeadership(ctx); err != nil && !errors.Is(err, session.ErrNotLeader) {
			n.options.Logger.Warn("leadership was not transferred", "error", err)
		}
	}
	err := n.ports.Stop(ctx)
	n.backups.close()
	quiet()
	n.consensus.AwaitApplied(ctx)
	return errors.Join(err, n.consensus.Stop(ctx))
}
