package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// replaced kills a node, empties its directory, starts it again and returns the moment it is ready, to the millisecond:
// an operator's script goes on to the next node then.
func (c *testCluster) replaced(n *testNode) {
	c.t.Helper()
	c.kill(n)
	c.empty(n)
	c.start(n)
	for begun := time.Now(); n.health.Check() != nil; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 40*time.Second {
			c.t.Fatalf("%s on a new directory is not ready: %v", n.name, n.health.Check())
		}
	}
}

// Nodes are replaced one after the other, each as soon as the former replacement is ready. A node that is ready votes,
// so that a quorum is left each time: the cluster takes opens while the next node is away, and no session is lost.
func TestNodesAreReplacedAsSoonAsEachIsReady(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 1, 0}, {0, 1, 2, 3, 4}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, len(order), nil)
				defer c.stop()
				// order counts from the leader
				nodes := append([]*testNode{c.leader(within)}, c.others(c.leader(within))...)
				granted := []session.Grant{c.mustOpen(nodes[0], 5*time.Second)}
				for _, i := range order {
					c.replaced(nodes[i])
					next := nodes[order[(slices.Index(order, i)+1)%len(order)]]
					c.kill(next)
					granted = append(granted, c.mustOpen(c.leader(20*time.Second, next), 5*time.Second))
					c.start(next)
					c.eventually(next.name+" is back", 20*time.Second, func() bool {
						return next.health.Check() == nil
					})
				}
				c.voters()
				c.agree(10 * time.Second)
				for _, g := range granted[len(granted)-2:] { // older ones have expired
					if _, err := c.leader(within).server.Find(t.Context(), g.Session.ID,
						session.ReadOptions{}); err != nil {
						t.Errorf("a session that was acknowledged: %v", err)
					}
				}
			})
		})
	}
}

// A node that was replaced has its vote by an entry that the leader and the node itself have: a quorum. The third node
// lags, and has not heard of it. Were the node ready, and the leader taken away then, the two that are left would elect
// nobody: the third takes no candidate that has no vote as far as it knows, and its own log is too short to win.
func TestAReplacedNodeIsReadyOnceAllKnowOfItsVote(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Sessions.HeartbeatInterval = 100 * time.Millisecond })
		defer c.stop()
		leads := c.leader(within)
		n, lags := c.others(leads)[0], c.others(leads)[1]
		c.mustOpen(leads, 5*time.Second)
		c.kill(n)
		c.empty(n)
		caughtUp := make(chan struct{})
		n.hook = func(uint64, uint64, []session.Change) { <-caughtUp }
		c.start(n)
		c.eventually("being taken in", 20*time.Second, func() bool {
			_, d, ok := n.membership.Member(n.cfg.Node)
			return ok && d == n.membership.OwnDirectory()
		})

		// The third hears of no entry while it writes one, for less than it takes the leader to send that again with
		// those behind it.
		lags.disk.hang()
		opened := make(chan struct{})
		go func() {
			defer close(opened)
			c.mustOpen(leads, 10*time.Second)
		}()
		c.eventually("the third writes", time.Second, func() bool { return lags.disk.hanging() > 0 })
		close(caughtUp)
		c.eventually("the vote is committed", 2*time.Second, func() bool {
			return n.membership.IsVoter() && n.view.AppliedIndex() == leads.consensus.Raft.LastIndex()
		})
		time.Sleep(2 * n.cfg.Sessions.HeartbeatInterval) // the leader says what it knows with the next heartbeat
		if s, _, _ := lags.membership.Member(n.cfg.Node); s.Suffrage == raft.Voter {
			t.Errorf("%s knows of the vote: it does not lag", lags.name)
		}
		ready := n.health.Check() == nil
		if ready {
			t.Errorf("%s is ready, and %s does not know of its vote", n.name, lags.name)
			c.kill(leads)
		}
		lags.disk.release()
		<-opened
		if !ready {
			c.eventually(n.name+" is ready", 2*time.Second, func() bool { return n.health.Check() == nil })
			c.kill(leads)
		}
		c.mustOpen(c.leader(20*time.Second, leads), 5*time.Second)
		c.start(leads)
		c.voters()
	})
}
