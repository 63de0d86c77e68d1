package node

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// quickly is how long a quick election takes on the network of these tests, with a margin.
const quickly = 60 * time.Millisecond

// elections returns how often nodes probed the leader and started an election, together.
func (c *testCluster) elections() (probes, started uint64) {
	for _, n := range c.nodes {
		if n.Node != nil {
			did := n.voter.Stats()
			probes += did.Probes
			started += did.Started
		}
	}
	return probes, started
}

// settled waits until every node serves, and a little longer than a new term binds its voters. It returns the leader
// and its term.
func (c *testCluster) settled() (*testNode, uint64) {
	c.t.Helper()
	for _, n := range c.nodes {
		c.eventually(n.name+" serves", 20*time.Second, func() bool { return n.health.Check() == nil })
	}
	time.Sleep(time.Second)
	leads := c.leader(within)
	return leads, leads.view.Term()
}

// dies ends a node's process as a kill does: its connections end, and its address refuses new ones.
func (c *testCluster) dies(n *testNode) {
	c.Kill(n.name)
	n.cancel()
}

// another waits for a leader other than old, and returns it and how long it took.
func (c *testCluster) another(within time.Duration, old ...*testNode) (*testNode, time.Duration) {
	c.t.Helper()
	begun := time.Now()
	var leads *testNode
	c.eventually("another leader", within, func() bool {
		for _, n := range c.nodes {
			if gone := n == old[0] || len(old) > 1 && n == old[1]; !gone && n.Leads() {
				leads = n
				return true
			}
		}
		return false
	})
	return leads, time.Since(begun)
}

// TestF4TheLeadersProcessEnds kills leaders. The next one leads in one term and in milliseconds, and opens sessions
// through every node.
func TestF4TheLeadersProcessEnds(t *testing.T) {
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d nodes", size), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, size, nil)
				defer c.stop()
				for range 3 {
					old, term := c.settled()
					_, before := c.elections()
					c.dies(old)
					leads, took := c.another(quickly, old)
					if leads == nil {
						return
					}
					_, after := c.elections()
					if got := leads.view.Term(); got != term+1 || after != before+1 {
						t.Errorf("term %d after %d, %d elections; want the next, by one", got, term, after-before)
					}
					for _, n := range c.others(old) {
						c.eventually("an open through "+n.name, quickly, func() bool {
							_, err := c.open(n, quickly)
							return err == nil
						})
					}
					t.Logf("%s after %s: %v", leads.name, old.name, took)
					<-old.ended
					c.start(old)
				}
			})
		})
	}
}

// TestF4TheLeaderAndAFollowerEnd kills two of five at once.
func TestF4TheLeaderAndAFollowerEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 5, nil)
		defer c.stop()
		old, term := c.settled()
		other := c.others(old)[0]
		c.dies(old)
		c.dies(other)
		if leads, _ := c.another(2*quickly, old, other); leads != nil && leads.view.Term() != term+1 {
			t.Errorf("term %d after %d", leads.view.Term(), term)
		}
	})
}

// TestF1TheLeaderStartsAgainAtOnce: the new process at the leader's address says that it does not lead.
func TestF1TheLeaderStartsAgainAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		// A node that stops so soon may still write its file of positions when Run returns.
		defer synctest.Wait()
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Tuning.ShutdownTimeout = 10 * time.Millisecond })
		defer c.stop()
		old, term := c.settled()
		_, before := c.elections()
		c.Kill(old.name)
		old.cancel()
		<-old.ended
		c.start(old)
		leads, _ := c.another(300*time.Millisecond, old)
		if _, after := c.elections(); leads == nil || leads.view.Term() != term+1 || after != before+1 {
			t.Errorf("%d elections, want one", after-before)
		}
	})
}

// TestF1ResetsDeposeNobody resets all connections of a living leader, again and again. The leader says that it leads.
func TestF1ResetsDeposeNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads, term := c.settled()
		before, _ := c.elections()
		for range 40 {
			for _, n := range c.others(leads) {
				c.Reset(leads.name, n.name)
			}
			time.Sleep(500 * time.Millisecond)
		}
		probes, started := c.elections()
		if probes-before < 40 || started != 0 {
			t.Errorf("%d probes and %d elections, want many probes and no election", probes-before, started)
		}
		if got := leads.view.Term(); got != term || !leads.Leads() {
			t.Errorf("term %d after %d: a living leader was deposed", got, term)
		}
	})
}

// TestF2OneVotersEvidenceIsNotEnough: the leader and one follower refuse each other's connections. The follower finds
// the leader gone, and the others do not.
func TestF2OneVotersEvidenceIsNotEnough(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads, term := c.settled()
		for _, one := range c.others(leads) {
			c.Refuse(leads.name, one.name)
			c.Refuse(one.name, leads.name)
			c.Reset(leads.name, one.name)
			time.Sleep(3 * time.Second)
			if c.Held(one.name, leads.name) == 0 || one.voter.Stats().Probes == 0 {
				t.Errorf("%s was refused nothing: this test shows nothing", one.name)
			}
			c.Admit(leads.name, one.name)
			c.Admit(one.name, leads.name)
			time.Sleep(20 * time.Second)
		}
		if _, started := c.elections(); started != 0 || leads.view.Term() != term || !leads.Leads() {
			t.Errorf("%d elections, term %d after %d: a living leader was deposed", started, leads.view.Term(), term)
		}
	})
}

// TestF1NobodyAnswers: connections end, and nobody answers at the leader's address, as when a container and its network
// go.
func TestF1NobodyAnswers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		old, term := c.settled()
		for _, n := range c.others(old) {
			c.Reset(old.name, n.name)
			c.Cut(old.name, n.name)
			c.Cut(n.name, old.name)
		}
		leads, took := c.another(150*time.Millisecond+quickly, old)
		if leads == nil || leads.view.Term() != term+1 || took < 140*time.Millisecond {
			t.Errorf("after %v", took)
		}
		for _, n := range c.others(old) {
			c.Heal(old.name, n.name)
			c.Heal(n.name, old.name)
		}
	})
}

// TestF1TheLeaderFreezes holds back all that a leader sends and gets. Its connections stay open. After 1 s of silence
// the others elect; a shorter freeze deposes nobody.
func TestF1TheLeaderFreezes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		old, term := c.settled()
		for range 5 {
			c.Pause(old.name)
			time.Sleep(700 * time.Millisecond) // below the lease less the age of the last heartbeat
			c.Resume(old.name)
			time.Sleep(2 * time.Second)
		}
		if got := old.view.Term(); got != term || !old.Leads() {
			t.Errorf("term %d after %d: freezes of 0.7 s deposed the leader", got, term)
		}
		c.Pause(old.name)
		leads, took := c.another(time.Second+quickly, old)
		if leads == nil || leads.view.Term() != term+1 {
			t.Errorf("after %v", took)
		}
		t.Logf("after %v", took)
		c.Resume(old.name)
	})
}

// TestOnlyMembersAreAnswered: a node tells only members, on the directories that the configuration names, and answers
// no malformed inquiry.
func TestOnlyMembersAreAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads, term := c.settled()
		other := c.others(leads)[0]
		from, on := other.cfg.Node, other.membership.OwnDirectory()
		probes := fmt.Sprintf(`{"probe":true,"term":%d}`, term)
		for name, tt := range map[string]struct {
			from session.Node
			on   raftnet.Directory
			in   string
			want string
		}{
			"a probe":            {from, on, probes, `{"received":true,"leads":true}`},
			"a later term":       {from, on, fmt.Sprintf(`{"probe":true,"term":%d}`, term+1), `{"received":true}`},
			"a question":         {from, on, fmt.Sprintf(`{"leader":1,"term":%d}`, term), `{"received":true}`},
			"another directory":  {from, on + 1, probes, ""},
			"no directory":       {from, 0, probes, ""},
			"not in the cluster": {9, on, probes, ""},
			"no inquiry":         {from, on, "probe", ""},
			"an empty inquiry":   {from, on, "", ""},
		} {
			if got := string(leads.voter.Answer(tt.from, tt.on, []byte(tt.in))); got != tt.want {
				t.Errorf("%s: answered %q, want %q", name, got, tt.want)
			}
		}
	})
}
