package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/members"
	"holdfast/node/storage"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// copyOf copies the directory of a node that has ended.
func (c *testCluster) copyOf(n *testNode) string {
	c.t.Helper()
	to := c.t.TempDir()
	if err := os.CopyFS(to, os.DirFS(c.config(n).DataDir)); err != nil {
		c.t.Fatal(err)
	}
	return to
}

// putBack puts a copy in the place of the directory of a node that has ended.
func (c *testCluster) putBack(n *testNode, older string) {
	c.t.Helper()
	c.empty(n)
	if err := os.CopyFS(c.config(n).DataDir, os.DirFS(older)); err != nil {
		c.t.Fatal(err)
	}
}

// serves waits until a node serves.
func (c *testCluster) serves(n *testNode) {
	c.t.Helper()
	c.eventually(n.name+" serves", 40*time.Second, func() bool { return n.health.Check() == nil })
}

// older starts a cluster in which the directory of one node will be set back. It returns an older copy of the directory
// of a node, the leader or a follower, and what was acknowledged since by that node and another one, the rest being cut
// off. The files of the others say so.
//
//nolint:revive // flag-parameter: a case of the test
func (c *testCluster) older(ofLeader bool) (n, knows, behind *testNode, copied string, granted []session.Grant) {
	c.t.Helper()
	n = c.leader(within)
	if !ofLeader {
		n = c.others(n)[0]
	}
	if err := c.end(n); err != nil {
		c.t.Error(err)
	}
	copied = c.copyOf(n)
	c.start(n)
	c.serves(n)
	leads := c.leader(within)
	if ofLeader {
		for leads != n {
			if err := leads.operator.Transfer(c.t.Context(), n.cfg.Node); err != nil {
				c.t.Logf("handing over: %v", err)
			}
			leads = c.leader(within)
		}
	}
	for _, one := range c.nodes {
		switch {
		case one == n:
		case knows == nil && (one == leads || ofLeader):
			knows = one
		default:
			behind = one
		}
	}
	heal := c.cut(behind, n, knows)
	for range 20 {
		granted = append(granted, c.mustOpen(leads, 5*time.Second))
	}
	c.eventually("the other member's file says what the node has acknowledged", 10*time.Second, func() bool {
		known := storage.OpenPositions(knows.dir, storage.PositionsConfig{Logger: hclog.NewNullLogger()})
		return known.Position(n.membership.OwnDirectory()).Index >= leads.view.AppliedIndex()
	})
	c.kill(behind)
	heal()
	return n, knows, behind, copied, granted
}

// kept fails unless sessions that were acknowledged are there.
func (c *testCluster) kept(granted []session.Grant) {
	c.t.Helper()
	for _, g := range granted {
		var err error
		c.eventually("a session that was acknowledged", 40*time.Second, func() bool {
			_, err = c.leader(40*time.Second).server.Find(c.t.Context(), g.Session.ID, session.ReadOptions{})
			return err == nil || errors.Is(err, session.ErrExpired)
		})
		if err != nil {
			c.t.Errorf("session %v, which was acknowledged: %v", g.Session.ID, err)
			return
		}
	}
}

// ends waits until a node has ended by itself.
func (c *testCluster) ends(n *testNode) {
	c.t.Helper()
	c.eventually(n.name+" ends", 40*time.Second, func() bool {
		select {
		case <-n.ended:
			return true
		default:
			return false
		}
	})
	if c.t.Failed() {
		c.t.Fatalf("%s goes on", n.name)
	}
}

// stopsAsOld waits until a node has ended, before it took part, because its directory is an older copy.
func (c *testCluster) stopsAsOld(n *testNode) {
	c.t.Helper()
	c.ends(n)
	if told, ok := errors.AsType[*members.OlderCopyError](n.err); !ok || told.Late {
		c.t.Fatalf("%s on an older copy ended with %v", n.name, n.err)
	}
}

// comesBack starts a node again that has ended as an older copy, and waits until it votes as a new member.
func (c *testCluster) comesBack(n *testNode, former raftnet.Directory) {
	c.t.Helper()
	c.start(n)
	c.voters()
	if n.membership.OwnDirectory() == former {
		c.t.Errorf("%s votes on the older copy", n.name)
	}
	_, err := os.Stat(filepath.Join(n.dir.Path(), storage.OlderCopyFolder, storage.StableFile))
	if err != nil || !strings.Contains(n.log.String(), "was set aside") {
		c.t.Errorf("the older copy of %s is not set aside, or the log does not say so", n.name)
	}
	c.agree(10 * time.Second)
}

// J6: a follower, or the node that led, comes back on an older copy of its directory while the member that knows better
// runs, or after all have been restarted. It takes no part before it is told, nothing that it had acknowledged is lost,
// and it comes back as a new member.
func TestJ6AnOlderCopyTakesNoPart(t *testing.T) {
	for name, tt := range map[string]struct{ leader, restarted bool }{
		"a follower": {false, false}, "a follower, the others restarted": {false, true},
		"the leader": {true, false}, "the leader, the others restarted": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 3, nil)
				defer c.stop()
				n, knows, behind, copied, granted := c.older(tt.leader)
				former := n.membership.OwnDirectory()
				c.kill(n)
				c.putBack(n, copied)
				if tt.restarted {
					c.kill(knows)
				}
				// The node that is behind would elect a leader with the older copy at once.
				c.start(behind)
				c.start(n)
				if tt.restarted {
					time.Sleep(time.Second)
					c.start(knows)
				}
				c.stopsAsOld(n)
				c.kept(granted)
				c.comesBack(n, former)
				c.kept(granted)
			})
		})
	}
}

// J6: a copy from before the node was admitted, such as the template of a volume, waits as long for the report of
// each voter: the node that is behind names it among the founders at once.
func TestJ6ACopyFromTheFirstStartWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		n, knows, behind, _, granted := c.older(false)
		c.kill(n)
		c.kill(knows)
		path := c.config(n).DataDir
		err := errors.Join(os.Remove(filepath.Join(path, storage.StableFile)), os.RemoveAll(filepath.Join(path, storage.LogFolder)),
			os.RemoveAll(filepath.Join(path, storage.SnapshotFolder)), os.Remove(filepath.Join(path, storage.PositionsFile)),
			rewrite(path, func(r *storage.Identity) { r.Founders, r.Log = nil, 0 }))
		if err != nil {
			t.Fatal(err)
		}
		c.start(behind)
		c.eventually("the node that is behind takes part", within, func() bool {
			return strings.Contains(behind.log.String(), "starts without the reports of unreachable nodes")
		})
		c.start(n)
		c.eventually("the copy is admitted", within, n.admission.Admitted)
		time.Sleep(3 * time.Second) // an election takes less
		c.start(knows)
		c.stopsAsOld(n)
		c.kept(granted)
	})
}

// J6: nobody who knows better is there. The older copy and a node that is behind elect a leader without what was
// acknowledged. The third node is told to drop it, stops first, and has it still, also when it is started again.
func TestJ6WhatWasAppliedIsNotCutOff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		n, knows, behind, copied, _ := c.older(false)
		applied := knows.view.AppliedIndex()
		c.kill(n)
		c.kill(knows)
		c.putBack(n, copied)
		c.start(behind)
		c.start(n)
		c.leader(time.Minute, knows)
		if !strings.Contains(n.log.String(), "starts without the reports of unreachable nodes") {
			t.Error("the node does not say whose reports it lacks")
		}
		for range 2 {
			c.start(knows)
			c.ends(knows)
			lost, ok := errors.AsType[*storage.LostEntriesError](knows.err)
			if !ok || lost.Applied < applied || lost.From > applied {
				t.Fatalf("%s ended with %v", knows.name, knows.err)
			}
		}
		log, err := openLog(c.config(knows).DataDir)
		if err != nil {
			t.Fatal(err)
		}
		last, err := log.LastIndex()
		if err = errors.Join(err, log.Close()); err != nil || last < applied {
			t.Errorf("its log ends with entry %d, %v; it had applied %d", last, err, applied)
		}
	})
}

// J6: two of three are set back. Both are told by the third, and the cluster says that no majority is left.
func TestJ6TwoOlderCopiesAreNoCluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		old := c.others(leads)
		var copies []string
		for _, n := range old {
			if err := c.end(n); err != nil {
				t.Error(err)
			}
			copies = append(copies, c.copyOf(n))
			c.start(n)
			c.serves(n)
		}
		leads = c.leader(within)
		for range 5 {
			c.mustOpen(leads, 5*time.Second)
		}
		c.agree(10 * time.Second)
		for _, n := range old {
			c.kill(n)
		}
		for i, n := range old {
			c.putBack(n, copies[i])
			c.start(n)
		}
		for _, n := range old {
			c.stopsAsOld(n)
			c.start(n)
		}
		time.Sleep(time.Minute)
		for _, n := range c.nodes {
			if n.Leads() || n.health.Check() == nil {
				t.Errorf("%s serves", n.name)
			}
		}
		if err := old[0].health.Check(); err == nil || !strings.Contains(err.Error(), "no majority is left") ||
			!strings.Contains(err.Error(), storage.LostMajority) {
			t.Errorf("%s says %v", old[0].name, err)
		}
	})
}

// Nobody but a member, on the directory that this node knows of it, ends this node with a report at its port.
func TestAStrangersReportIsNotTaken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		n := c.leader(within)
		as := c.others(n)[0]
		host := c.Host("stranger")
		listener, err := host.Listen("stranger:7401")
		if err != nil {
			t.Fatal(err)
		}
		s := stranger{raftnet.New(raftnet.Config{
			ClusterID: n.cfg.ClusterID, Settings: n.cfg.ClusterSettings(), Node: as.cfg.Node, Key: raftnet.Key{0xba},
			Advertise: "stranger:7401", Listener: listener, Dial: host.Dial,
			Known: func(raftnet.Directory) raftnet.Position { return raftnet.Position{Term: 1 << 40, Index: 1 << 40} },
		}), c, host.Dial}
		defer s.close()
		if _, err := s.Meet(t.Context(), n.name+":7401", []byte("{}")); err != nil {
			t.Errorf("meeting: %v", err)
		}
		time.Sleep(5 * time.Second)
		if !n.Leads() {
			t.Errorf("a stranger ended the leader: %v", n.failure.cause())
		}
	})
}
