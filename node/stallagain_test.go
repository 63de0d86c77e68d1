package node

import (
	"sync/atomic"
	"testing"
	"time"

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
			if err := victim.TransferLeadership(t.Context()); err != nil {
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
		if mine, theirs := victim.consensus.Raft.LastIndex(), leads.consensus.Raft.LastIndex(); mine >= theirs {
			t.Errorf("%s has entries up to %d of %d, and still stalls", victim.name, mine, theirs)
		}
		hangs.Store(false)
		close(hung)
		c.eventually("serving again", 20*time.Second, func() bool { return victim.health.Check() == nil })
		c.agree(5 * time.Second)
	})
}

// A leader whose stall ends before anybody else is elected leads the same term again, with another tracker: its rounds
// are news to all nodes that heard the former tracker's rounds, however many there were (S4 jeopardy). Others elect as
// soon as it steps out, so a cluster of one shows it.
func TestALeaderThatComesBackWithinItsTerm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 1, nil)
		defer c.stop()
		leads := c.leader(within)
		time.Sleep(3 * time.Minute)
		was, term := leads.roles.Tracker(), leads.view.Term()
		leads.disk.hang()
		opened := make(chan struct{})
		go func() {
			defer close(opened)
			_, _ = c.open(leads, 3*time.Second) // it makes the disk hang, and its outcome is open
		}()
		c.eventually("the stall is noticed", within, func() bool { return leads.watchdog.Check() != nil })
		leads.disk.release()
		<-opened
		c.eventually("another tracker", within, func() bool {
			now := leads.roles.Tracker()
			return now != nil && now != was
		})
		if got := leads.view.Term(); got != term {
			t.Fatalf("term %d, was %d", got, term)
		}
		time.Sleep(10 * leads.cfg.Sessions.HeartbeatInterval) // what the former tracker said is old by now
		c.eventually("the node serves", 5*time.Second, func() bool { return leads.health.Check() == nil })
		c.mustOpen(leads, time.Second)
	})
}
