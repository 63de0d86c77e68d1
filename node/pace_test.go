package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

const (
	quickTimeout = time.Second
	slowInterval = 10 * time.Second
)

// uneven is a cluster of which the second node has heartbeat intervals and timeouts of fifty times the others'.
func uneven(t *testing.T) (c *testCluster, slow *testNode) {
	t.Helper()
	c = newTestCluster(t, 3, func(cfg *config.Config) {
		cfg.Sessions.MinTimeout, cfg.Sessions.HeartbeatInterval = quickTimeout, quickTimeout/5
		if strings.HasSuffix(cfg.DataDir, "n2") {
			cfg.Sessions.MinTimeout, cfg.Sessions.HeartbeatInterval = 4*slowInterval, slowInterval
		}
	})
	slow = c.nodes[1]
	c.eventually("a leader", within, func() bool {
		return slices.ContainsFunc(c.nodes, func(n *testNode) bool { return n.Leads() })
	})
	if slow.Leads() {
		c.lead(slow, c.nodes[0])
	}
	return c, slow
}

// R1, S4: no node's clients are in jeopardy because its own interval is not the leader's.
func TestIntervalsThatDifferAreNoJeopardy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, slow := uneven(t)
		defer c.stop()
		for _, leads := range []*testNode{c.leader(within, slow), slow} {
			if leads == slow {
				c.lead(c.leader(within), slow)
			}
			c.eventually("all to follow", slowInterval, func() bool {
				return !slices.ContainsFunc(c.nodes, func(n *testNode) bool { return n.server.Ready() != nil })
			})
			for range 600 {
				time.Sleep(slowInterval / 100)
				for _, n := range c.nodes {
					if mode := n.server.State().Mode; mode != session.ModeReadWrite {
						t.Fatalf("while %s leads %s is %v", leads.name, n.name, mode)
					}
				}
			}
		}
	})
}

// R1, I8: a session whose timeout is far below what the leader would give, opened while another node led, is promised
// as much as ever.
func TestIntervalsThatDifferBreakNoPromise(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, slow := uneven(t)
		defer c.stop()
		c.leader(2*within, slow)
		owner := c.nodes[2]
		conn := listen(t, owner)
		granted, err := conn.Open(t.Context(),
			session.OpenRequest{
				RequestID: session.RequestID{1}, Spec: session.Spec{Timeout: quickTimeout},
				MS: session.MS(time.Now()),
			})
		if err != nil {
			t.Fatal(err)
		}
		c.lead(c.leader(within), slow)
		var least time.Duration
		for i := range 1200 {
			time.Sleep(quickTimeout / 20)
			if touched := conn.Touch(nil); i == 40 || touched.SafeFor < least {
				least = touched.SafeFor // since 2 s after the hand-over
			}
			if lost(owner, []session.ID{granted.Session.ID}) > 0 {
				t.Fatalf("a session of %v ended that was touched every %v", quickTimeout, quickTimeout/20)
			}
		}
		if want := quickTimeout / 2; least < want {
			t.Errorf("promises were as short as %v, want %v at least", least, want)
		}
	})
}

// lead has the node that leads hand over to another.
func (c *testCluster) lead(from, to *testNode) {
	c.t.Helper()
	id, address := raftnet.ServerID(to.cfg.Node, to.membership.OwnDirectory()), to.raftAddress()
	if err := from.consensus.Raft.LeadershipTransferToServer(id, address).Error(); err != nil {
		c.t.Errorf("handing over to %s: %v", to.name, err)
	}
	c.eventually("a hand-over to "+to.name, within, func() bool { return to.consensus.Raft.State() == raft.Leader })
}
