package whole

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/node"
	"holdfast/node/config"
	"holdfast/node/health"
	"holdfast/session"
	"holdfast/test/loopback"
)

// Life is one life of a node in this process.
type Life struct {
	*node.Node
	cancel context.CancelFunc
	ended  chan struct{}
	// err is what Run returned, set before ended is closed.
	err error
}

// Begin starts a life of a node. Missing options are those of tests: no log, and a disk that is half full, because this
// machine's disk is not the test's.
func Begin(cfg config.Config, o node.Options) (*Life, error) {
	o.Version = cmp.Or(o.Version, "test")
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Platform.Measures.Disk == nil {
		o.Platform.Measures.Disk = func() (health.Disk, error) { return health.Disk{Size: 2 << 30, Free: 1 << 30}, nil }
	}
	n, err := node.New(cfg, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Life{Node: n, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		l.err = n.Run(ctx)
	}()
	return l, nil
}

// Stop stops the node in order, as SIGTERM does, and returns what Run returned, also when called again.
func (l *Life) Stop() error {
	l.cancel()
	<-l.ended
	return l.err
}

// Serves waits until the node serves. The error is why it has ended instead.
func (l *Life) Serves() error {
	select {
	case <-l.Ready():
		return nil
	case <-l.ended:
		return fmt.Errorf("the node has ended: %w", l.err)
	}
}

// StopAll stops nodes at once, and fails the test with their errors.
func StopAll(tb testing.TB, all ...*Life) {
	tb.Helper()
	var stopping sync.WaitGroup
	for i, l := range all {
		stopping.Go(func() {
			if err := l.Stop(); err != nil {
				tb.Errorf("node %d of %d: %v", i+1, len(all), err)
			}
		})
	}
	stopping.Wait()
}

// OnLoopback returns the configurations of a cluster on ports and directories of the test.
func OnLoopback(tb testing.TB, size int) []config.Config {
	tb.Helper()
	at, dir := loopback.Free(tb, 4*size), tb.TempDir()
	var all []config.Config
	var peers []config.Peer
	for i := 0; i < len(at); i += 4 {
		cfg := config.Default()
		cfg.Node = session.Node(i/4 + 1)
		cfg.DataDir = filepath.Join(dir, fmt.Sprint(cfg.Node))
		cfg.Listen.Client, cfg.Listen.Raft, cfg.Listen.Peer, cfg.Listen.HTTP = at[i], at[i+1], at[i+2], at[i+3]
		peers = append(peers, config.Peer{Node: cfg.Node, Client: at[i], Raft: at[i+1], Peer: at[i+2]})
		all = append(all, cfg)
	}
	for i := range all {
		all[i].Peers = peers
	}
	return all
}

// PeerOf returns the addresses of node i, counted from 0, whose host in a bubble is n1, n2 and so on.
func PeerOf(i int) config.Peer {
	host := fmt.Sprintf("n%d", i+1)
	return config.Peer{Node: session.Node(i + 1), Raft: host + ":7401", Peer: host + ":7402", Client: host + ":7400"}
}
