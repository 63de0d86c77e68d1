package main

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client"
	"holdfast/node"
	"holdfast/node/config"
)

// startTree runs a whole cluster of one node, with quotas for everybody, for commands and for a client of the test. It
// returns once the node has a tree.
func startTree(t *testing.T) *client.Client {
	t.Helper()
	cfg := config.Default()
	cfg.Node, cfg.DataDir, cfg.Tree.OpenQuotas = 1, t.TempDir(), true
	free := closedPorts(t, 4)
	cfg.Listen.Client, cfg.Listen.Raft, cfg.Listen.Peer, cfg.Listen.HTTP = free[0], free[1], free[2], free[3]
	cfg.Peers = []config.Peer{{Node: 1, Client: cfg.Listen.Client, Raft: cfg.Listen.Raft, Peer: cfg.Listen.Peer}}
	n, err := node.New(cfg, node.Options{Logger: hclog.NewNullLogger(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if failed := <-ended; failed != nil {
			t.Errorf("node: %v", failed)
		}
	})
	select {
	case <-n.Ready():
	case failed := <-ended:
		t.Fatal(failed)
	}
	t.Setenv(endpointsVariable, cfg.Listen.Client)
	c, err := client.New(client.Config{Endpoints: []string{cfg.Listen.Client}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Tree().Get(t.Context(), "/"); err != nil { // it waits for the tree (W8)
		t.Fatal(err)
	}
	return c
}

// heldTree returns the tree for a session of the test's client.
func heldTree(t *testing.T, c *client.Client) (*client.Session, *client.Tree) {
	t.Helper()
	s, err := c.Open(t.Context(), client.SessionOptions{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Tree()
}
