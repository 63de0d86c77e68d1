package node

import (
	"slices"
	"testing"
	"time"

	"holdfast/leader"
	"holdfast/test/bubble"
)

// A voter that is dead is never asked to lead, although Raft has sent it as much as the other. Raft commits nothing
// while it waits for a dead voter.
func TestTransferPassesOverADeadVoter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		for i := range 4 {
			leads := c.leader(20 * time.Second)
			dead := c.others(leads)[i%2]
			if err := c.end(dead); err != nil {
				t.Fatal(err)
			}
			c.eventually("the leader misses the stopped node alone", 10*time.Second, func() bool {
				peers := leads.peers()
				return len(peers) == 3 && !slices.ContainsFunc(peers, func(p leader.Peer) bool {
					return p.Responsive == (p.Node == dead.cfg.Node)
				})
			})
			begun := time.Now()
			if err := leads.TransferLeadership(t.Context()); err != nil {
				t.Fatalf("TransferLeadership with %s stopped: %v", dead.name, err)
			}
			if took := time.Since(begun); took >= leads.cfg.Raft.HeartbeatTimeout {
				t.Errorf("TransferLeadership with %s stopped took %v, as if the dead node had been asked first", dead.name, took)
			}
			c.leader(5*time.Second, leads, dead)
			c.start(dead)
			c.eventually("all nodes serve", 30*time.Second, func() bool {
				return !slices.ContainsFunc(c.nodes, func(n *testNode) bool { return n.server.Ready() != nil })
			})
		}
	})
}
