package whole

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/loopback"
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
	at, err := loopback.Own(4)
	if err != nil {
		return nil, err
	}
	cfg.Listen.Client, cfg.Listen.Raft, cfg.Listen.Peer, cfg.Listen.HTTP = at[0], at[1], at[2], at[3]
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
