package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// movable returns a cluster whose nodes can change their Raft ports. A port in ports counts from the next start of a
// node, for the node itself and for its peers.
func movable(t *testing.T, size int) (c *testCluster, ports map[session.Node]string) {
	t.Helper()
	ports = map[session.Node]string{}
	return newTestCluster(t, size, func(cfg *config.Config) {
		for i, p := range cfg.Peers {
			if port := ports[p.Node]; port != "" {
				cfg.Peers[i].Raft = strings.TrimSuffix(p.Raft, ":7401") + port
			}
		}
		if port := ports[cfg.Node]; port != "" {
			cfg.Listen.Raft = port
		}
	}), ports
}

// Whichever node restarts first, and whichever leads: a node that keeps its directory takes part at its new address.
func TestAMemberMoves(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {1, 2, 0}, {1, 0, 2}} {
		for _, leader := range []bool{true, false} {
			t.Run(fmt.Sprintf("order %v, leads %t", order, leader), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, ports := movable(t, 3)
					defer c.stop()
					leads := c.leader(within)
					moved := leads
					if !leader {
						moved = c.others(leads)[0]
					}
					granted := c.mustOpen(leads, 5*time.Second)
					before := moved.membership.OwnDirectory()
					ports[moved.cfg.Node] = ":7501"
					nodes := append([]*testNode{moved}, c.others(moved)...) // order counts from the one that moves
					for i, of := range order {
						n := nodes[of]
						c.restart(n)
						if order[0] != 0 && (n != moved || i == 2) { // it is not reached by those that do not know yet
							c.eventually(n.name+" serves", 20*time.Second, func() bool {
								return n.health.Check() == nil
							})
						}
					}
					c.voters()
					for _, n := range c.nodes {
						for _, m := range n.Members() {
							if want := moved.name + ":7501"; m.Node == moved.cfg.Node && m.RaftAddress != want {
								t.Errorf("%s shows %+v, want it at %s", n.name, m, want)
							}
						}
					}
					if moved.membership.OwnDirectory() != before {
						t.Error("it was taken in anew")
					}
					c.agree(10 * time.Second)
					if _, err := moved.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
						t.Errorf("a session from before: %v", err)
					}
				})
			})
		}
	}
}

// All nodes move at once. A node that lacks an entry moves before the last node with the entry loses its other
// follower. The node that can win the election dials the others at the addresses of its own peers, because no leader
// tells it.
func TestMovesWithoutALeader(t *testing.T) {
	t.Run("all at once", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			c, ports := movable(t, 3)
			defer c.stop()
			granted := c.mustOpen(c.leader(within), 5*time.Second)
			for _, n := range c.nodes {
				c.kill(n)
				ports[n.cfg.Node] = ":7501"
			}
			for _, n := range c.nodes {
				c.start(n)
			}
			leads := c.leader(within)
			c.voters()
			if _, err := leads.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
				t.Errorf("a session from before: %v", err)
			}
		})
	})
	t.Run("two of three are left", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			c, ports := movable(t, 3)
			defer c.stop()
			leads := c.leader(within)
			moved, third := c.others(leads)[0], c.others(leads)[1]
			c.kill(moved)
			ports[moved.cfg.Node] = ":7501"
			c.start(moved)
			granted := c.mustOpen(leads, 5*time.Second) // of which the one that moved does not hear
			c.kill(third)
			c.restart(leads)
			now := c.leader(within, third)
			if _, err := now.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
				t.Errorf("a session from before: %v", err)
			}
			c.start(third)
			c.voters()
		})
	})
}

// A wrong address among peers, where nobody is, or a process that was given the member's number, cuts nobody off: the
// member is reached where it was taken in.
func TestAWrongAddressAmongPeers(t *testing.T) {
	for _, strays := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			c := newTestCluster(t, 3, nil)
			defer c.stop()
			member := c.others(c.leader(within))[0]
			if strays {
				defer c.stray(member, "elsewhere")()
			}
			c.change = func(cfg *config.Config) {
				i := slices.IndexFunc(cfg.Peers, func(p config.Peer) bool { return p.Node == member.cfg.Node })
				cfg.Peers[i].Raft = "elsewhere:7401"
			}
			for _, n := range c.others(member) {
				c.restart(n)
				c.eventually(n.name+" serves", 20*time.Second, func() bool { return n.health.Check() == nil })
			}
			c.voters()
			c.agree(10 * time.Second)
			want := fmt.Sprintf("node %d was added at %s:7401, but is among this node's peers at elsewhere:7401",
				member.cfg.Node, member.name)
			for _, n := range c.others(member) {
				c.eventually(n.name+" says "+want, 2*complaintInterval, func() bool {
					return strings.Count(n.log.String(), want) == 1
				})
			}
		})
	}
}

// stray runs a process on a host that was given of's number, until end.
func (c *testCluster) stray(of *testNode, host string) (end func()) {
	c.t.Helper()
	cfg := c.config(of)
	cfg.DataDir += "." + host
	stray, err := New(cfg, Options{Logger: hclog.NewNullLogger(), Platform: Platform{Network: c.Host(host)}})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- stray.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	}
}
