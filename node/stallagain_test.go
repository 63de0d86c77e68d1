package node

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A node that stalls on two things comes back when both are over.
func TestTwoStalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 0, nil)
		c.add(3)
		victim := c.nodes[0]
		var hangs atomic.Bool
		hung := make(chan struct{})
		victim.hook = func(uint64, uint64, []session.Change) {
			if hangs.Load() {
				<-hung
			}
		}
		for _, n := range c.nodes {
			c.start(n)
		}
		defer c.stop()
		if c.leader(within) == victim {
			if err := victim.HandOver(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		leads := c.leader(within, victim)
		hangs.Store(true)
		c.mustOpen(leads, time.Second)
		time.Sleep(time.Second)
		victim.disk.hang()
		c.mustOpen(leads, time.Second)
		c.eventually("both stalls", within, func() bool {
			return victim.watchdog.Stats().Stalls == [watchdog.Reasons]bool{true, true}
		})
		victim.disk.release()
		c.eventually("the end of one", time.Second, func() bool {
			return victim.watchdog.Stats().Stalls == [watchdog.Reasons]bool{false, true}
		})
		c.mustOpen(leads, time.Second)
		time.Sleep(20 * time.Second)
		if mine, theirs := victim.consensus.raft.LastIndex(), leads.consensus.raft.LastIndex(); mine >= theirs {
			t.Errorf("%s has entries up to %d of %d, and still stalls", victim.name, mine, theirs)
		}
		hangs.Store(false)
		close(hung)
		c.eventually("serving again", 20*time.Second, func() bool { return victim.health.check() == nil })
		c.agree(5 * time.Second)
	})
}

// A leader whose stall ends before the others elect leads the same term again, with another tracker: its rounds are
// news to all nodes that heard the former tracker's rounds, however many there were (S4).
func TestALeaderThatComesBackWithinItsTerm(t *testing.T) {
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", size), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, size, func(cfg *config.Config) {
					cfg.Raft.QuickElection = false
					// The node comes back within a look of the watchdog, and Raft's lease outlives that look.
					cfg.Raft.StallLimit = 2 * time.Second
				})
				defer c.stop()
				old := c.leader(within)
				time.Sleep(3 * time.Minute)
				was, term := old.roles.terms.tracker.Load(), old.view.Term()
				old.disk.hang()
				opened := make(chan struct{})
				go func() {
					defer close(opened)
					_, _ = c.open(old, 3*time.Second) // it makes the disk hang, and its outcome is open
				}()
				c.eventually("the stall is noticed", within, func() bool { return old.watchdog.Check() != nil })
				old.disk.release()
				<-opened
				c.eventually("another tracker", within, func() bool {
					now := old.roles.terms.tracker.Load()
					return now != nil && now != was
				})
				if got := old.view.Term(); got != term {
					t.Fatalf("term %d, was %d: the stall was too long for this test", got, term)
				}
				time.Sleep(10 * old.cfg.Sessions.HeartbeatInterval) // what the former tracker said is old by now
				for _, n := range append(c.others(old), old) {
					c.eventually(n.name+" serves", 5*time.Second, func() bool { return n.health.check() == nil })
				}
				c.mustOpen(old, time.Second)
			})
		})
	}
}
