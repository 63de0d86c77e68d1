package main

import (
	"slices"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/test/whole"
)

// runningNode is a whole node on loopback.
type runningNode struct {
	*whole.Life
	// address is where clients reach it.
	address string
}

// asIs and withLocalSessions are settings for [startNodes].
func asIs(*config.Config) {}

func withLocalSessions(cfg *config.Config) { cfg.Sessions.Local = true }

// startNodes runs whole nodes that are one cluster, until the end of the test. It returns once they are ready.
func startNodes(t *testing.T, count int, change func(*config.Config)) []runningNode {
	t.Helper()
	var nodes []runningNode
	for _, cfg := range whole.OnLoopback(t, count) {
		change(&cfg)
		n, err := whole.Begin(cfg, node.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { whole.StopAll(t, n) })
		nodes = append(nodes, runningNode{n, cfg.Listen.Client})
	}
	for _, n := range nodes {
		if err := n.Serves(); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// startTree runs a whole cluster of one node, with quotas for everybody, for commands and for a client of the test.
func startTree(t *testing.T) *client.Client {
	t.Helper()
	n := startNodes(t, 1, func(cfg *config.Config) { cfg.Tree.OpenQuotas = true })[0]
	t.Setenv(endpointsVariable, n.address)
	c, err := client.New(client.Config{Endpoints: []string{n.address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// clientOf returns a client of one node alone.
func clientOf(t *testing.T, n runningNode) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Endpoints: []string{n.address}, OnlyEndpoints: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// follower returns a node that does not lead: the others are a quorum with a leader without it.
func follower(t *testing.T, nodes []runningNode) int {
	t.Helper()
	members, err := clientOf(t, nodes[0]).MembersOfLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := len(nodes) - 1; i > 0; i-- {
		if !slices.ContainsFunc(members, func(m client.Member) bool { return m.Leader && int(m.Node) == i+1 }) {
			return i
		}
	}
	t.Fatal("no node follows")
	return 0
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
