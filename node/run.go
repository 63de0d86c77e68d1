package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// Run serves until ctx ends, and then stops in order: it refuses new requests, hands leadership on, lets requests under
// way end, and closes what New opened, for at most the configured time. Its error is why the node could not go on; nil
// after an ordered stop.
func (n *Node) Run(ctx context.Context) error {
	// The parts outlive ctx: they are stopped one after the other.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	http := n.newHTTP()
	var parts sync.WaitGroup
	start := func(name string, run func() error) {
		parts.Go(func() {
			if err := run(); err != nil {
				n.fail(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	start("proposer", func() error { return n.proposer.Run(running) })
	start("learner", func() error { return n.server.Run(running) })
	start("peer port", func() error { return n.peers.Serve(n.listeners.peer) })
	start("client port", func() error { return n.client.Serve(n.listeners.client) })
	start("http port", func() error { return serveHTTP(http, n.listeners.http) })
	start("health", func() error { return n.watchReady(running) })
	start("roles", func() error { return n.roles(running) })

	select {
	case <-ctx.Done():
		n.logger.Info("stopping")
	case <-n.fatal:
	}
	bound, done := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShutdownTimeout)
	defer done()
	err := n.stop(bound, cancel)
	err = errors.Join(err, http.Shutdown(bound))
	if !n.failed() {
		parts.Wait()
		return errors.Join(err, n.dir.Close())
	}
	// What failed may hang for good; the process is about to end, and that ends it too.
	return errors.Join(n.fatalErr, err, n.dir.Close())
}

func (n *Node) failed() bool {
	select {
	case <-n.fatal:
		return true
	default:
		return false
	}
}

// stop ends the parts in the order in which they need each other.
func (n *Node) stop(ctx context.Context, cancel context.CancelFunc) error {
	n.server.Stop()
	n.client.SetServing("", false)
	if !n.failed() && n.consensus.raft.State() == raft.Leader {
		// Another node leads before this one's clients come to it: they lose no time.
		n.transfer(ctx)
	}
	err := errors.Join(n.client.Stop(ctx), n.peers.Stop(ctx))
	cancel()
	return errors.Join(err, n.consensus.stop(ctx))
}

// transfer hands leadership to a voter that is up to date, if one can be found in time.
func (n *Node) transfer(ctx context.Context) {
	done := make(chan error, 1)
	go func() { done <- n.consensus.raft.LeadershipTransfer().Error() }()
	select {
	case err := <-done:
		if err != nil {
			n.logger.Warn("leadership was not handed on", "error", err)
		}
	case <-ctx.Done():
	}
}
