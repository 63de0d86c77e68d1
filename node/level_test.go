package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/fsm"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// founded starts a cluster of three with a value of the setting tree. The nodes old are of a release without a tree.
func founded(t *testing.T, raise config.Raise, old ...int) *testCluster {
	t.Helper()
	c := newTestCluster(t, 0, func(cfg *config.Config) { cfg.Tree.Raise = raise })
	c.add(3)
	for _, i := range old {
		c.nodes[i].lacks = 1
	}
	for _, n := range c.nodes {
		c.start(n)
	}
	c.leader(within)
	return c
}

// trees waits until all nodes have a tree.
func (c *testCluster) trees() {
	c.t.Helper()
	c.eventually("a tree on all nodes", time.Minute, func() bool { return c.levels() == len(c.nodes) })
}

// noTree fails if a node has a tree after half a minute.
func (c *testCluster) noTree() {
	c.t.Helper()
	time.Sleep(30 * time.Second)
	if c.levels() > 0 {
		c.t.Error("a node has a tree")
	}
}

// levels counts the nodes that have a tree.
func (c *testCluster) levels() (n int) {
	for _, one := range c.nodes {
		if one.view.level() > 0 {
			n++
		}
	}
	return n
}

// upgrade starts a node again in a release with the tree.
func (c *testCluster) upgrade(n *testNode) {
	c.t.Helper()
	if err := c.end(n); err != nil {
		c.t.Fatal(err)
	}
	n.lacks = 0
	c.start(n)
}

// W8: a cluster whose founders all have the tree gets one. Each node keeps in mind what the founders had, also a node
// that is taken in later.
func TestW8AFoundedClusterGetsATree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := founded(t, config.RaiseFounded)
		defer c.stop()
		c.trees()
		emptied := c.others(c.leader(within))[0]
		c.kill(emptied)
		c.empty(emptied)
		c.start(emptied)
		c.voters()
		for _, n := range c.nodes {
			if r, err := readIdentity(n.dir.Path); err != nil || r.Founded != session.FeatureLevel {
				t.Errorf("%s has %d on its disk as the level of the founders, %v, want %d", n.name, r.Founded, err,
					session.FeatureLevel)
			}
		}
	})
}

// W8: a leader raises the level when the last member's stream opens, not an interval after its term began. Before that
// the nodes of such a cluster say that the tree is coming.
func TestW8TheRaiseWaitsForNoInterval(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const interval = time.Second
		c := newTestCluster(t, 0, func(cfg *config.Config) {
			cfg.Sessions.HeartbeatInterval, cfg.Tree.Raise = interval, config.RaiseFounded
		})
		defer c.stop()
		c.add(3)
		for _, n := range c.nodes {
			c.start(n)
		}
		var leads *testNode
		c.eventually("a leader", time.Minute, func() bool {
			i := slices.IndexFunc(c.nodes, func(n *testNode) bool { return n.Leads() })
			if i >= 0 {
				leads = c.nodes[i]
			}
			return i >= 0
		})
		if state := leads.server.State(); state.FeatureLevel == 0 && state.ComingLevel != session.FeatureLevel {
			t.Errorf("%+v says of no tree that comes", state)
		}
		took := c.eventually("a tree on all nodes", time.Minute, func() bool { return c.levels() == len(c.nodes) })
		if took > interval/2 {
			t.Errorf("the tree came %v after the leader", took)
		}
		for _, n := range c.nodes {
			if state := n.server.State(); state.FeatureLevel != session.FeatureLevel || state.ComingLevel != 0 {
				t.Errorf("%s says %+v", n.name, state)
			}
		}
	})
}

// W8: no tree is coming to a cluster that waits for its operator.
func TestW8NoTreeComesWithoutTheOperatorsWord(t *testing.T) {
	for raise, old := range map[config.Raise][]int{
		config.RaiseNever: nil, config.RaiseFounded: {2}, config.RaiseAlways: {2},
	} {
		bubble.Test(t, func(t *testing.T) {
			c := founded(t, raise, old...)
			defer c.stop()
			for _, n := range c.nodes {
				if state := n.server.State(); state.FeatureLevel != 0 || state.ComingLevel != 0 {
					t.Errorf("tree: %s: %s says %+v", raise, n.name, state)
				}
			}
		})
	}
}

// W8: a cluster with a founder of an older release gets a tree only when the operator says so, and once the last member
// can have one. It writes nothing before that that the older release cannot read.
func TestW8TheOperatorsWordAndTheLastMember(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		raise := config.RaiseFounded
		c := founded(t, raise, 2)
		defer c.stop()
		c.change = func(cfg *config.Config) { cfg.Tree.Raise = raise }
		c.upgrade(c.nodes[2])
		c.leader(within)
		c.noTree()
		for _, n := range c.nodes {
			if got := n.view.LogVersion(); got != session.AutoLogVersion {
				t.Errorf("%s: log version %d, want %d", n.name, got, session.AutoLogVersion)
			}
		}
		raise = config.RaiseAlways
		if err := c.end(c.nodes[2]); err != nil {
			t.Fatal(err)
		}
		c.nodes[2].lacks = 1
		c.start(c.nodes[2])
		c.restart(c.nodes[0])
		c.restart(c.nodes[1])
		c.leader(within)
		c.noTree() // n3 does not offer it
		if err := c.end(c.nodes[2]); err != nil {
			t.Fatal(err)
		}
		c.leader(within)
		c.noTree() // n3 may come back in any release
		c.nodes[2].lacks = 0
		c.start(c.nodes[2])
		c.leader(within)
		c.trees()
	})
}

// W8: the setting off keeps a cluster without a tree, and takes none away: the level is in log and snapshots.
func TestW8TheLevelNeverFalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		raise := config.RaiseNever
		c := founded(t, raise)
		defer c.stop()
		c.change = func(cfg *config.Config) { cfg.Tree.Raise = raise }
		c.noTree()
		for _, raise = range []config.Raise{config.RaiseAlways, config.RaiseNever} {
			for _, n := range c.nodes {
				if err := c.end(n); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range c.nodes {
				c.start(n)
			}
			c.leader(within)
			c.trees()
		}
		for _, n := range c.nodes { // the next start has a snapshot alone
			if err := n.consensus.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			c.restart(n)
		}
		c.leader(within)
		c.trees()
		c.agree(within)
	})
}

// W8: a node of a release without the tree stops at the log, or at the snapshot, of a cluster that has one. It loses
// nothing: in its former release it goes on. The format of the directory, which keeps such a release out before that,
// does not count here: test/e2e has the release itself.
func TestW8ANodeDoesNotGoBackToAnOlderRelease(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			c := founded(t, config.RaiseFounded)
			defer c.stop()
			c.trees()
			leads := c.leader(within)
			owner := c.resumedOnce(leads)
			c.write(leads, owner, 1, tree.Create{Path: "/kept", Kind: tree.Persistent})
			c.found("/kept", 3, within)
			old := c.others(leads)[0]
			if snapshot {
				if err := old.consensus.raft.Snapshot().Error(); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.end(old); err != nil {
				t.Fatal(err)
			}
			old.lacks = 1
			unreadable := c.goesBack(old)
			if e, ok := errors.AsType[*fsm.UnreadableError](unreadable); !ok || e.Corrupt() ||
				!strings.Contains(e.Error(), "level must be at most 0") ||
				strings.Contains(e.Error(), "snapshot") != snapshot {
				t.Errorf("in an older release: %v", unreadable)
			}
			old.lacks = 0
			c.start(old)
			c.trees()
			c.found("/kept", 3, within)
			c.agree(within)
		})
	}
}

// goesBack starts a node, and returns the error that ends it, at its start or soon after.
func (c *testCluster) goesBack(n *testNode) error {
	c.t.Helper()
	made, err := c.make(n)
	if err != nil {
		return err
	}
	n.Node = made
	c.run(n)
	select {
	case <-n.ended:
	case <-time.After(within):
		c.t.Errorf("%s did not end", n.name)
	}
	return n.err
}

// W8: a node that offers less than the cluster has is not taken in. Both sides say why, and it is taken in once it runs
// the release of the others.
func TestW8AnOlderNodeIsNotTakenIn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := founded(t, config.RaiseFounded)
		defer c.stop()
		c.trees()
		leads := c.leader(within)
		old := c.others(leads)[0]
		c.kill(old)
		c.empty(old)
		old.lacks = 1
		c.start(old)
		time.Sleep(time.Minute)
		if old.admission.admitted() || old.health.check() == nil {
			t.Errorf("%s was taken in", old.name)
		}
		said := (&session.FeatureLevelError{Node: old.cfg.Node, Needs: session.FeatureLevel}).Error()
		for _, n := range []*testNode{old, leads} {
			if !strings.Contains(n.log.String(), said) {
				t.Errorf("the log of %s does not say %q", n.name, said)
			}
		}
		if err := old.admission.check(); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("the health of %s: %v", old.name, err)
		}
		c.upgrade(old)
		c.voters()
		c.trees()
	})
}

// W8: a leader takes no stream of a node that offers less than the cluster has, and says so on both sides.
func TestW8AnOlderNodesStreamIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := founded(t, config.RaiseFounded)
		defer c.stop()
		c.trees()
		leads := c.leader(within)
		other := c.others(leads)[0]
		hello := other.roles.streams.next()
		hello.FeatureLevel = 0
		err := leads.roles.terms.follow(t.Context(), hello, nil)
		refused, ok := errors.AsType[*session.FieldError](err)
		if !ok || refused.Field != "hello.feature_level" || !strings.Contains(refused.Limit, "at least 2") {
			t.Errorf("a stream of an older release: %v", err)
		}
		if !strings.Contains(leads.log.String(), "a node of an older release cannot follow") {
			t.Error("the leader's log does not say so")
		}
	})
}

// W8: the replicas share the limits of the leader's settings, and take new ones from the log.
func TestW8LimitsOfTheTree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		limits := config.Tree{Raise: config.RaiseFounded, OpenQuotas: true}
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Tree = limits })
		defer c.stop()
		shared := func() {
			t.Helper()
			c.eventually("the limits", within, func() bool {
				for _, n := range c.nodes {
					if now := n.view.Tree(); now == nil || now.Limits != limits.Limits() {
						return false
					}
				}
				return true
			})
		}
		shared()
		limits.OpenQuotas = false
		for _, n := range c.nodes {
			c.restart(n)
			c.leader(within)
		}
		shared()
	})
}
