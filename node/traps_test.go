package node

import (
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/test/bubble"
)

// Raft's Shutdown hands leadership to nobody, and Close of its transport leaves connections open. A node that is
// stopped hands over first, so that another leads without an election timeout; it leaves no connection open; and it
// starts again on its configuration, which Raft will not be bootstrapped with twice.
func TestAnOrderedStopHandsOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		former := c.leader(10 * time.Second)
		time.Sleep(10 * time.Second)
		begun := time.Now()
		former.cancel()
		next := c.leader(time.Minute, former)
		if took := time.Since(begun); took >= former.cfg.Raft.HeartbeatTimeout/2 {
			t.Errorf("%s led after %v: nobody handed over to it", next.name, took)
		}
		<-former.ended
		if former.err != nil {
			t.Errorf("the ordered stop: %v", former.err)
		}
		c.start(former)
		c.eventually("the stopped node to serve again", time.Minute, func() bool {
			return former.server.Ready() == nil
		})
		c.mustOpen(former, 5*time.Second)
		c.stop()
		if n := c.Conns(); n != 0 {
			t.Errorf("%d ends of connections are open after all nodes have stopped", n)
		}
	})
}

// Raft's Shutdown waits for the requests that are under way, and one to a follower that is behind may take long: the
// stop of a leader does not wait for it.
func TestAStopDoesNotWaitForALaggard(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Raft.StallTimeout = time.Hour })
		defer c.stop()
		former := c.leader(10 * time.Second)
		behind := c.others(former)[0]
		behind.disk.hang()
		defer behind.disk.release()
		c.mustOpen(former, 5*time.Second)
		time.Sleep(10 * time.Second)
		if behind.disk.hanging() == 0 {
			t.Fatal("nothing hangs: the fault did not hit")
		}
		begun := time.Now()
		if err := c.end(former); err != nil || time.Since(begun) > time.Second {
			t.Errorf("the stop took %v: %v", time.Since(begun), err)
		}
	})
}
