package node

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// sized returns a cluster whose nodes have the first nodes as peers, as many as known says for each when it is started,
// else the size.
func sized(t *testing.T, size int) (c *testCluster, known map[session.Node]int) {
	t.Helper()
	known = map[session.Node]int{}
	return newTestCluster(t, size, func(cfg *config.Config) {
		if peers := known[cfg.Node]; peers > 0 {
			cfg.Peers = cfg.Peers[:peers]
		} else {
			cfg.Peers = cfg.Peers[:size]
		}
	}), known
}

// restart ends n in order and starts it.
func (c *testCluster) restart(n *testNode) {
	c.t.Helper()
	if err := c.end(n); err != nil {
		c.t.Error(err)
	}
	c.start(n)
}

// A cluster of three becomes a cluster of five. A node that waits, or lacks a member among its peers, says why.
func TestAClusterGrows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, known := sized(t, 3)
		defer c.stop()
		granted := c.mustOpen(c.leader(within), 5*time.Second)
		c.add(2)
		for i, n := range c.nodes {
			known[session.Node(i+1)] = 5
			if i >= 3 {
				c.start(n)
			}
		}
		time.Sleep(10 * time.Second)
		for _, n := range c.nodes[3:] {
			for _, of := range c.nodes[:3] {
				want := fmt.Sprintf("node %d is not among node %d's peers", n.cfg.Node, of.cfg.Node)
				if _, body := c.get(n, "/healthz"); !strings.Contains(body, want) {
					t.Errorf("healthz of %s: %q, want %q", n.name, body, want)
				}
			}
		}
		for _, n := range c.nodes[:3] {
			c.restart(n)
			c.leader(20 * time.Second)
			c.eventually(n.name+" serves", 20*time.Second, func() bool { return n.health.Check() == nil })
		}
		c.voters()
		c.agree(10 * time.Second)
		for _, n := range c.nodes {
			if got := len(n.Members()); got != 5 {
				t.Errorf("%s shows %d members, want 5", n.name, got)
			}
			if _, err := n.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
				t.Errorf("a session from before, through %s: %v", n.name, err)
			}
		}
		time.Sleep(2 * complaintInterval)
		for _, n := range c.nodes {
			if found := n.membership.Differences(); len(found) > 0 {
				t.Errorf("%s: %q", n.name, found)
			}
		}
	})
}

// An operator removes two of five nodes from everybody's peers, and they are still members. Before and after the loss
// of one more node, the nodes say that they are members.
func TestMembersThatAreNoPeersAreTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, known := sized(t, 5)
		defer c.stop()
		c.leader(within)
		for _, n := range c.nodes[3:] {
			if err := c.end(n); err != nil {
				t.Error(err)
			}
		}
		for _, n := range c.nodes[:3] {
			known[n.cfg.Node] = 3
			c.restart(n)
			c.eventually(n.name+" serves", 20*time.Second, func() bool { return n.health.Check() == nil })
		}
		time.Sleep(time.Minute)
		for _, n := range c.nodes[:3] {
			for _, gone := range []string{
				"node 4 is a member at n4:7401, but not among", "node 5 is a member at n5:7401, but not among",
			} {
				if got := strings.Count(n.log.String(), gone); got != 1 {
					t.Errorf("%s has said %d times %q, want once", n.name, got, gone)
				}
			}
			if got := n.Members()[3]; got.Node != 4 || !got.Voter || got.RaftAddress != "n4:7401" {
				t.Errorf("%s shows %+v", n.name, got)
			}
		}
		if err := c.end(c.nodes[2]); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * time.Second)
		for _, n := range c.nodes[:2] {
			code, body := c.get(n, "/healthz")
			if code != http.StatusServiceUnavailable ||
				!strings.Contains(body, "no leader is known; node 4 is a member at n4:7401, but not among") {
				t.Errorf("healthz of %s: %d %q", n.name, code, body)
			}
		}
	})
}
