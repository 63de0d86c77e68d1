package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
)

// kill ends a node without letting anything out, and returns when it has ended.
func (c *testCluster) kill(n *testNode) {
	c.Kill(n.name)
	n.cancel()
	<-n.ended
}

// empty empties the directory of a node that has ended.
func (c *testCluster) empty(n *testNode) {
	c.t.Helper()
	if err := os.RemoveAll(c.config(n).DataDir); err != nil {
		c.t.Fatal(err)
	}
}

// cut cuts both ways between a and each of others; heal ends that.
func (c *testCluster) cut(a *testNode, others ...*testNode) (heal func()) {
	for _, b := range others {
		c.Cut(a.name, b.name)
		c.Cut(b.name, a.name)
	}
	return func() {
		for _, b := range others {
			c.Heal(a.name, b.name)
			c.Heal(b.name, a.name)
		}
	}
}

// An entry that the leader and an emptied follower had is lost if the follower's vote counts: the third node has never
// heard of it.
func TestAnEmptiedNodeLosesNoEntry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		emptied, behind := c.others(leads)[0], c.others(leads)[1]
		heal := c.cut(behind, leads, emptied)
		granted := c.mustOpen(leads, 5*time.Second) // on two disks, acknowledged
		c.kill(emptied)
		c.kill(leads)
		c.empty(emptied)
		heal()
		c.start(emptied)
		time.Sleep(30 * time.Second)
		if emptied.Leads() || behind.Leads() {
			t.Error("a node leads that has never heard of an entry that was acknowledged")
		}
		c.start(leads)
		again := c.leader(20 * time.Second)
		if _, err := again.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
			t.Errorf("a session that was acknowledged: %v", err)
		}
		c.eventually("the emptied node serves", 30*time.Second, func() bool { return emptied.health.Check() == nil })
		c.agree(10 * time.Second)
		c.mustOpen(emptied, 5*time.Second)
	})
}

// A node that has voted in a term and was emptied must not vote again in it.
func TestAnEmptiedNodeVotesOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		emptied, behind := c.others(leads)[0], c.others(leads)[1]
		// What the node that is behind would ask for in the leader's own term, had its question been on its way since
		// then.
		term := leads.consensus.Raft.CurrentTerm()
		heal := c.cut(emptied, leads)
		c.kill(emptied)
		c.empty(emptied)
		c.start(emptied)
		time.Sleep(100 * time.Millisecond)
		if granted, err := c.askForVote(behind, emptied, term); err == nil && granted {
			t.Errorf("%s voted twice in term %d", emptied.name, term)
		}
		heal()
		c.eventually("the emptied node serves", 40*time.Second, func() bool { return emptied.health.Check() == nil })
		c.agree(10 * time.Second)
	})
}

// voters fails unless all nodes vote, each on its own directory.
func (c *testCluster) voters() {
	c.t.Helper()
	c.eventually("that all vote", 40*time.Second, func() bool {
		for _, n := range c.nodes {
			for _, of := range c.nodes {
				s, d, ok := n.membership.Member(of.cfg.Node)
				if !ok || s.Suffrage != raft.Voter || d != of.membership.OwnDirectory() {
					return false
				}
			}
			if n.health.Check() != nil {
				return false
			}
		}
		return true
	})
}

// Each node is emptied in turn, the leader too, and twice: it comes back as a new one, and nothing is lost.
func TestEveryNodeIsEmptiedInTurn(t *testing.T) {
	for _, size := range []int{3, 5} {
		bubble.Test(t, func(t *testing.T) {
			c := newTestCluster(t, size, nil)
			defer c.stop()
			var granted []session.Grant
			for _, n := range append(slices.Clone(c.nodes), c.nodes[0]) {
				granted = append(granted, c.mustOpen(c.leader(within), 5*time.Second))
				c.kill(n)
				c.empty(n)
				c.start(n)
				c.voters()
				c.agree(10 * time.Second)
				for _, g := range granted[max(0, len(granted)-2):] { // older ones have expired
					if _, err := n.server.Find(t.Context(), g.Session.ID, session.ReadOptions{}); err != nil {
						t.Errorf("%s on a new directory: a session that was acknowledged: %v", n.name, err)
					}
				}
				if strings.Count(n.log.String(), "founder=false") == 0 {
					t.Errorf("%s was not taken in anew", n.name)
				}
			}
		})
	}
}

// Two of three are emptied: what they knew may be lost, and nobody says otherwise.
func TestTwoEmptiedNodesAreNoCluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		c.leader(within)
		for _, n := range c.nodes[:2] {
			c.kill(n)
			c.empty(n)
		}
		for _, n := range c.nodes[:2] {
			c.start(n)
		}
		time.Sleep(time.Minute)
		for i, n := range c.nodes {
			if n.Leads() || n.health.Check() == nil {
				t.Errorf("%s serves", n.name)
			}
			if err := n.health.Check(); i < 2 && !strings.Contains(err.Error(), "node 3 knows node") {
				t.Errorf("%s does not say why it waits: %v", n.name, err)
			}
			if code, body := c.get(n, "/healthz"); code != http.StatusServiceUnavailable ||
				i < 2 && !strings.Contains(body, "node 3 knows node") {
				t.Errorf("healthz of %s: %d %q", n.name, code, body)
			}
		}
	})
}

// A new cluster forms when all its nodes are there, and one that is not yet admitted may be restarted, or emptied.
func TestANewClusterWaitsForAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 0, nil)
		c.add(3)
		defer c.stop()
		c.start(c.nodes[0])
		c.start(c.nodes[1])
		time.Sleep(time.Minute)
		for _, n := range c.nodes[:2] {
			if err := n.health.Check(); err == nil || !strings.Contains(err.Error(), "node 3") {
				t.Errorf("%s says %v, want that it waits for node 3", n.name, err)
			}
			if got := strings.Count(n.log.String(), "waits for admission to the cluster"); got < 3 || got > 10 {
				t.Errorf("%s has said %d times in a minute that it waits", n.name, got)
			}
		}
		if err := c.end(c.nodes[1]); err != nil {
			t.Error(err)
		}
		c.empty(c.nodes[1])
		c.start(c.nodes[1])
		c.start(c.nodes[2])
		c.leader(within)
		c.voters()
		c.mustOpen(c.leader(within), time.Second)
	})
}

// The directory that was lost is found again, after another was taken in: it is not taken for that one, and is taken in
// anew in its turn.
func TestALostDirectoryComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		n := c.others(c.leader(within))[0]
		path := c.config(n).DataDir
		c.kill(n)
		if err := os.Rename(path, path+".lost"); err != nil {
			t.Fatal(err)
		}
		c.start(n)
		c.voters()
		second := n.membership.OwnDirectory()
		time.Sleep(time.Minute) // Raft speaks to a server that was removed for as long as its back-off lasts
		c.kill(n)
		if err := errors.Join(os.RemoveAll(path), os.Rename(path+".lost", path)); err != nil {
			t.Fatal(err)
		}
		leads := c.leader(within, n)
		c.start(n)
		time.Sleep(3 * time.Second)
		if s, d, ok := leads.membership.Member(n.cfg.Node); !ok || s.Suffrage != raft.Voter || d != second {
			t.Errorf("after 3s the cluster knows of it %+v on %v", s, d)
		}
		var third []*testNode
		for _, one := range c.others(leads) {
			if one != n {
				third = append(third, one)
			}
		}
		heal := c.cut(leads, third...)
		if _, err := c.open(leads, time.Second); err == nil {
			t.Error("an entry was committed that only the leader and a directory which is not a member's have")
		}
		heal()
		c.voters()
		c.agree(10 * time.Second)
		c.mustOpen(n, 5*time.Second)
	})
}

// A second process that is given a member's number by mistake is not taken in for it.
func TestASecondProcessOfOneNumber(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		member := c.others(leads)[0]
		before := member.membership.OwnDirectory()
		cfg := c.config(member)
		cfg.DataDir += ".second"
		second, err := New(cfg, Options{Logger: hclog.NewNullLogger(), Platform: Platform{Network: c.Host("second")}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- second.Run(ctx) }()
		time.Sleep(30 * time.Second)
		if s, d, ok := leads.membership.Member(cfg.Node); !ok || s.Suffrage != raft.Voter || d != before ||
			second.health.Check() == nil || member.health.Check() != nil {
			t.Errorf("the cluster knows %+v on %v; the member serves: %v, the second: %v", s, d, member.health.Check(),
				second.health.Check())
		}
		if strings.Contains(leads.log.String(), "removing a node") {
			t.Error("the member was removed")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A node that is taken in has no vote before it has applied what the cluster had.
func TestANewNodeVotesOnceItHasCaughtUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		n := c.others(leads)[0]
		c.mustOpen(leads, time.Second)
		c.kill(n)
		c.empty(n)
		caughtUp := make(chan struct{})
		n.hook = func(uint64, uint64, []session.Change) { <-caughtUp }
		c.start(n)
		server := func() raft.Server {
			s, _, _ := leads.membership.Member(n.cfg.Node)
			return s
		}
		c.eventually("being taken in", 20*time.Second, func() bool { return n.admission.Admitted() })
		time.Sleep(2 * time.Second)
		if got := server(); got.Suffrage != raft.Nonvoter {
			t.Errorf("it is %+v, and has applied nothing", got)
		}
		close(caughtUp)
		c.voters()
	})
}

// A stray process with a node's number asks from elsewhere while the node is away. It does not run at the node's
// address, so that the leader does not take it in. The node comes back with its directory as if nothing had happened.
func TestAStrayProcessTakesNoPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		member := c.others(leads)[0]
		before := member.membership.OwnDirectory()
		cfg := c.config(member)
		cfg.DataDir += ".stray"
		if err := c.end(member); err != nil {
			t.Fatal(err)
		}
		stray, err := New(cfg, Options{Logger: hclog.NewNullLogger(), Platform: Platform{Network: c.Host("stray")}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- stray.Run(ctx) }()
		time.Sleep(30 * time.Second)
		if err := stray.admission.Check(); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("node %d knows node %d on another data directory", leads.cfg.Node, cfg.Node)) {
			t.Errorf("the stray process does not ask the leader: %v", err)
		}
		if s, d, ok := leads.membership.Member(cfg.Node); !ok || s.Suffrage != raft.Voter || d != before {
			t.Errorf("the cluster knows %+v on %v, want a voter on %v", s, d, before)
		}
		c.start(member)
		c.eventually("the member serves", within, func() bool { return member.health.Check() == nil })
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
