package client_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/test/loopback"
)

// TestMain ends the cluster of the examples.
func TestMain(m *testing.M) {
	code := m.Run()
	if examples.stop != nil {
		examples.stop()
	}
	os.Exit(code)
}

// examples is a whole cluster of one node, which the first example starts.
var examples struct {
	once    sync.Once
	address string
	client  *client.Client
	stop    func()
}

// check ends an example that fails.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// inExample returns a new session and its tree, of which an example has a part of its own.
func inExample(root string) (context.Context, *client.Session, *client.Tree) {
	examples.once.Do(startExamples)
	ctx := context.Background()
	s, err := examples.client.Open(ctx, client.SessionOptions{Timeout: 30 * time.Second})
	check(err)
	_, there, err := s.Tree().Exists(ctx, root)
	check(err)
	if !there {
		_, err = s.Tree().Create(ctx, root, nil, client.CreateOptions{})
		check(err)
	}
	in, err := s.Tree().Chroot(root)
	check(err)
	return ctx, s, in
}

// newExampleClient returns another client of the cluster.
func newExampleClient() *client.Client {
	c, err := client.New(client.Config{Endpoints: []string{examples.address}})
	check(err)
	return c
}

func startExamples() {
	dir, err := os.MkdirTemp("", "holdfast-examples-")
	check(err)
	free, err := loopback.Own(4)
	check(err)
	cfg := config.Default()
	cfg.Node, cfg.DataDir = 1, dir
	cfg.Gate.Room.DiskLimit = 0 // the disk of this machine is not the test's
	cfg.Listen.Client, cfg.Listen.Raft, cfg.Listen.Peer, cfg.Listen.HTTP = free[0], free[1], free[2], free[3]
	cfg.Peers = []config.Peer{{Node: 1, Client: cfg.Listen.Client, Raft: cfg.Listen.Raft, Peer: cfg.Listen.Peer}}
	n, err := node.New(cfg, node.Options{Logger: hclog.NewNullLogger(), Version: "examples"})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	examples.address = cfg.Listen.Client
	examples.client = newExampleClient()
	examples.stop = func() {
		check(examples.client.Close())
		stop()
		check(<-ended)
		check(os.RemoveAll(dir))
	}
}
