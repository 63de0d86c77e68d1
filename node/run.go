package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"holdfast/session"
	"holdfast/transport/clientport"
)

// Run serves until ctx ends, and then stops in order: it refuses new requests, hands leadership on, lets requests under
// way end, and closes what New opened, for at most the configured time. Its error is why the node could not go on; nil
// after an ordered stop.
func (n *Node) Run(ctx context.Context) error {
	// The parts outlive ctx: they are stopped one after the other.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	web := n.newHTTP()
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
	start("http port", func() error { return serveHTTP(web, n.listeners.http) })
	start("health", func() error { return n.watchReady(running) })
	start("admission", func() error { return n.meet(running) })
	start("directory", func() error { return n.watchDirectory(running) })
	start("watchdog", func() error { return n.watch(running) })
	start("scrub", func() error { return n.scrub(running) })
	start("roles", func() error { return n.roles(running) })

	select {
	case <-ctx.Done():
		n.logger.Info("stopping")
	case <-n.fatal:
		if err := n.consensus.abandon(); err != nil {
			n.logger.Warn("closing Raft's port", "error", err)
		}
	}
	bound, done := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShutdownTimeout)
	defer done()
	ended := make(chan struct{})
	go func() { parts.Wait(); close(ended) }()
	err := n.stop(bound, web, func() {
		cancel()
		select {
		case <-ended:
		case <-bound.Done():
		}
	})
	if n.failed() {
		// What failed may hang for good; the process is about to end, and that ends it too.
		return errors.Join(n.fatalErr, err, n.dir.Close())
	}
	return errors.Join(err, n.dir.Close())
}

func (n *Node) failed() bool {
	select {
	case <-n.fatal:
		return true
	default:
		return false
	}
}

// stop ends the parts in the order in which they need each other. quiet ends what runs on Raft: the roles and the
// proposer must have ended before Raft does, so that nobody waits for an entry that is never answered.
func (n *Node) stop(ctx context.Context, web *http.Server, quiet func()) error {
	n.server.Stop()
	n.client.SetServing(clientport.HealthNode, false)
	if !n.failed() {
		// Another node leads before this one's clients come to it: they lose no time.
		if err := n.HandOver(ctx); err != nil && !errors.Is(err, session.ErrNotLeader) {
			n.logger.Warn("leadership was not handed on", "error", err)
		}
	}
	err := n.stopServers(ctx, web)
	quiet()
	return errors.Join(err, n.consensus.stop(ctx))
}

// stopServers stops the three servers side by side, within half of what is left: a client that does not listen must not
// cost Raft its ordered end.
func (n *Node) stopServers(ctx context.Context, web *http.Server) error {
	if end, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = half
	}
	var wg sync.WaitGroup
	var errs [3]error
	for i, stop := range []func(context.Context) error{n.client.Stop, n.peers.Stop, web.Shutdown} {
		wg.Go(func() { errs[i] = stop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}
