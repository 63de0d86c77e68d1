package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubbles"
	"holdfast/transport/raftnet"
)

// movable returns a cluster whose nodes' Raft ports can be changed: those in ports are, at a node's next start and among its peers.
func movable(t *testing.T, size int) (c *testCluster, ports map[session.Node]string) {
	t.Helper()
	ports = map[session.Node]string{}
	return newTestCluster(t, size, func(cfg *Config) {
		for i, p := range cfg.Peers {
			if port := ports[p.Node]; port != "" {
				cfg.Peers[i].Raft = strings.TrimSuffix(p.Raft, ":7401") + port
			}
		}
		if port := ports[cfg.Node]; port != "" {
			cfg.RaftListen = port
		}
	}), ports
}

// dials fails unless every node's Raft dials of at address, on the directory that it has.
func (c *testCluster) dials(of *testNode, address string) {
	c.t.Helper()
	want := raft.Server{Suffrage: raft.Voter, ID: serverID(of.cfg.Node, of.admission.mine), Address: raftnet.At(address, of.admission.mine)}
	for _, n := range c.nodes {
		c.eventually(fmt.Sprintf("%s has Raft dial %+v", n.name, want), 30*time.Second, func() bool {
			got, _, _ := n.directoryOf(of.cfg.Node)
			return got == want
		})
		for _, m := range n.Members() {
			if m.Node == of.cfg.Node && m.RaftAddress != address {
				c.t.Errorf("%s shows %+v", n.name, m)
			}
		}
	}
}

// Whichever is restarted first, and whoever leads: a node that keeps its directory takes part at its new address, and Raft dials it there.
func TestAMemberMoves(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {1, 2, 0}, {1, 0, 2}} {
		for _, leader := range []bool{true, false} {
			t.Run(fmt.Sprintf("order %v, leads %t", order, leader), func(t *testing.T) {
				bubbles.Test(t, func(t *testing.T) {
					c, ports := movable(t, 3)
					defer c.stop()
					leads := c.leader(within)
					moved := leads
					if !leader {
						moved = c.others(leads)[0]
					}
					granted := c.mustOpen(leads, 5*time.Second)
					before := moved.admission.mine
					ports[moved.cfg.Node] = ":7501"
					nodes := append([]*testNode{moved}, c.others(moved)...) // order counts from the one that moves
					for i, of := range order {
						n := nodes[of]
						c.restart(n)
						if order[0] != 0 && (n != moved || i == 2) { // it is not reached by those that do not know yet
							c.eventually(n.name+" serves", 20*time.Second, func() bool { return n.serves() == nil })
						}
					}
					c.voters()
					c.dials(moved, moved.name+":7501")
					if moved.admission.mine != before {
						t.Error("it was taken in anew")
					}
					c.agree(10 * time.Second)
					if _, err := moved.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
						t.Errorf("a session from before: %v", err)
					}
					time.Sleep(2 * complaintInterval)
					for _, n := range c.nodes {
						differs, again := strings.Count(n.log.String(), "peers differ"), strings.Count(n.log.String(), "the same again")
						if differs > 1 || differs != again {
							t.Errorf("%s has said %d times that configuration and peers differ, and %d times that they do not", n.name, differs, again)
						}
					}
				})
			})
		}
	}
}

// Where another process answers, or nobody, the leader does not have Raft dial: the member would be cut off.
func TestAMemberIsNotMovedToWhereItIsNot(t *testing.T) {
	for _, strays := range []bool{false, true} {
		bubbles.Test(t, func(t *testing.T) {
			c := newTestCluster(t, 3, nil)
			defer c.stop()
			member := c.others(c.leader(within))[0]
			if strays {
				defer c.stray(member, "elsewhere")()
			}
			c.change = func(cfg *Config) {
				i := slices.IndexFunc(cfg.Peers, func(p Peer) bool { return p.Node == member.cfg.Node })
				cfg.Peers[i].Raft = "elsewhere:7401"
			}
			for _, n := range c.others(member) {
				c.restart(n)
				c.eventually(n.name+" serves", 20*time.Second, func() bool { return n.serves() == nil })
			}
			if member.Leads() { // whose own peers name the address that it has
				if err := member.HandOver(t.Context()); err != nil {
					t.Error(err)
				}
			}
			leads := c.leader(within, member)
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if s, _, _ := leads.directoryOf(member.cfg.Node); raftAddress(s) != member.name+":7401" || !leads.Leads() {
					t.Fatalf("%s leads: %t, and has Raft dial %+v", leads.name, leads.Leads(), s)
				}
			}
			c.dials(member, member.name+":7401")
			c.voters()
			want := fmt.Sprintf("node %d is a member at %s:7401, and among this node's peers at elsewhere:7401", member.cfg.Node, member.name)
			for _, n := range c.others(member) {
				if got := strings.Count(n.log.String(), want); got != 1 {
					t.Errorf("%s has said %d times %q, want once", n.name, got, want)
				}
			}
		})
	}
}

// stray runs a process on a host that was given of's number, until end.
func (c *testCluster) stray(of *testNode, host string) (end func()) {
	c.t.Helper()
	cfg := c.config(of)
	cfg.DataDir += "." + host
	stray, err := New(cfg, Options{Logger: hclog.NewNullLogger(), Network: c.Host(host)})
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
