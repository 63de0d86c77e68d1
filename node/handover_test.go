package node

import (
	"slices"
	"testing"
	"time"

	"holdfast/leader"
	"holdfast/session"
	"holdfast/test/bubble"
)

func TestSuccessors(t *testing.T) {
	heard := func(n session.Node, applied uint64) leader.Peer {
		return leader.Peer{Node: n, Voter: true, Heard: true, Applied: applied}
	}
	silent := func(n session.Node, applied uint64) leader.Peer {
		return leader.Peer{Node: n, Voter: true, Applied: applied}
	}
	type (
		peers = []leader.Peer
		nodes = []session.Node
	)
	voters := nodes{1, 2, 4, 5}
	for name, c := range map[string]struct {
		known peers
		want  nodes
	}{
		"the one that has applied most": {peers{heard(1, 7), heard(2, 9), heard(4, 8), heard(5, 9)}, nodes{2, 5, 4, 1}},
		"never a silent one":            {peers{silent(1, 99), heard(2, 9), silent(4, 99), heard(5, 9)}, nodes{2, 5}},
		"unless all are silent":         {peers{silent(1, 9), silent(2, 1)}, nodes{4, 5, 1, 2}},
		"without a tracker":             {nil, nodes{4, 5, 1, 2}},
		"not without a vote":            {peers{heard(3, 9), heard(6, 9), heard(2, 1)}, nodes{2}},
	} {
		if got := successors(3, voters, c.known); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A voter that is dead is never asked to lead, although Raft has sent it as much as the other. Raft commits nothing
// while it waits for a dead voter.
func TestHandOverPassesOverADeadVoter(t *testing.T) {
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
					return p.Heard == (p.Node == dead.cfg.Node)
				})
			})
			begun := time.Now()
			if err := leads.HandOver(t.Context()); err != nil {
				t.Fatalf("HandOver with %s stopped: %v", dead.name, err)
			}
			if took := time.Since(begun); took >= leads.cfg.Raft.HeartbeatTimeout {
				t.Errorf("HandOver with %s stopped took %v, as if the dead node had been asked first", dead.name, took)
			}
			c.leader(5*time.Second, leads, dead)
			c.start(dead)
			c.eventually("all nodes serve", 30*time.Second, func() bool {
				return !slices.ContainsFunc(c.nodes, func(n *testNode) bool { return n.server.Ready() != nil })
			})
		}
	})
}
