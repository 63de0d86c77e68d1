package whole

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
)

// Loopback is a cluster of one node on loopback, for examples: they run on the wall clock.
type Loopback struct {
	// Endpoints are for [client.Config].
	Endpoints []string

	stop  context.CancelFunc
	ended chan error
	dir   string
}

// NewLoopback starts the node, and returns when it serves a tree.
func NewLoopback() (*Loopback, error) {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		return nil, err
	}
	cfg := config.Default()
	cfg.Node, cfg.DataDir = 1, dir
	cfg.Gate.Room.DiskLimit = 0 // the disk of this machine is not the test's
	if err = listenFree(&cfg.Listen.Client, &cfg.Listen.Raft, &cfg.Listen.Peer, &cfg.Listen.HTTP); err != nil {
		return nil, err
	}
	cfg.Peers = []config.Peer{{
		Node: 1, Client: cfg.Listen.Client, Raft: cfg.Listen.Raft, Peer: cfg.Listen.Peer,
	}}
	n, err := node.New(cfg, node.Options{Logger: hclog.NewNullLogger(), Version: "test"})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Loopback{Endpoints: []string{cfg.Listen.Client}, stop: stop, ended: make(chan error, 1), dir: cfg.DataDir}
	go func() { l.ended <- n.Run(ctx) }()
	select {
	case <-n.Ready():
		return l, l.planted(ctx)
	case err := <-l.ended:
		return nil, err
	}
}

// listenFree sets different addresses at which nobody listens.
func listenFree(addresses ...*string) error {
	for _, address := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binding a port waits for nothing
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }() // at the end: a port that is closed already may be given again
		*address = l.Addr().String()
	}
	return nil
}

// planted waits until the node serves a tree.
func (l *Loopback) planted(ctx context.Context) error {
	c, err := client.New(client.Config{Endpoints: l.Endpoints})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for again := time.NewTicker(10 * time.Millisecond); ; <-again.C {
		if _, err := c.Tree().Get(ctx, "/"); !errors.Is(err, session.ErrNoTree) {
			return err
		}
	}
}

// Stop ends the node and removes its data.
func (l *Loopback) Stop() error {
	l.stop()
	return errors.Join(<-l.ended, os.RemoveAll(l.dir))
}
