package node

import (
	"testing"
	"time"

	"holdfast/test/bubble"
)

// R7: a follower applies what it was asked for within a few round trips, far below Raft's commit timeout.
func TestR7AFollowerAppliesAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.agree(within)
		const opens = 20
		for _, n := range c.others(leads) {
			c.mustOpen(n, within)
			for range opens {
				time.Sleep(time.Second)
				begun := time.Now()
				c.mustOpen(n, within)
				// To the leader and back, to the followers and back, and the notice: five ways of 1 ms.
				if took := time.Since(begun); took > leads.cfg.CommitTimeout()/10 {
					t.Errorf("an open through %s took %v", n.name, took)
				}
			}
		}
		if stats := leads.consensus.NoticeStats(); stats.Accepted < 2*2*opens || stats.Failed > 0 {
			t.Errorf("%d notices were accepted and %d failed, for %d opens and two followers", stats.Accepted, stats.Failed,
				2*opens)
		}
	})
}

// R7: a commit of which no notice is sent, because another entry seems to follow, is told after the commit timeout.
func TestR7ACommitIsToldWithoutANotice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		c.noNotices = true
		for _, n := range c.nodes {
			if err := c.end(n); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range c.nodes {
			c.start(n)
		}
		leads := c.leader(within)
		c.agree(within)
		follower := c.others(leads)[0]
		timeout := leads.cfg.CommitTimeout()
		var longest time.Duration
		for range 10 {
			time.Sleep(time.Second)
			begun := time.Now()
			c.mustOpen(follower, within)
			longest = max(longest, time.Since(begun))
		}
		if most := 2*timeout + 20*time.Millisecond; longest > most || longest < timeout {
			t.Errorf("without notices the longest open took %v, want %v to %v", longest, timeout, most)
		}
	})
}

// R8: followers write an entry while the leader writes it, so that an open takes one write and not two. A leader whose
// disk hangs commits nothing meanwhile.
func TestR8AnOpenTakesOneWrite(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.agree(within)
		const write = 50 * time.Millisecond
		for _, n := range c.nodes {
			n.disk.set(func(d *faultyDisk) { d.delay = write })
		}
		for range 3 {
			time.Sleep(time.Second)
			begun := time.Now()
			c.mustOpen(leads, within)
			if took := time.Since(begun); took < write || took >= 2*write {
				t.Errorf("an open took %v, want one write of %v", took, write)
			}
		}
		time.Sleep(time.Second)
		leads.disk.hang()
		applied := leads.consensus.Raft.AppliedIndex()
		if _, err := c.open(leads, leads.cfg.Raft.StallTimeout/2); err == nil {
			t.Error("an open ended before the leader had written it")
		}
		for _, n := range c.others(leads) {
			if got := n.consensus.Raft.LastIndex(); got != applied+1 {
				t.Errorf("%s has %d entries, want one more than the %d that were applied", n.name, got, applied)
			}
			if got := n.consensus.Raft.CommitIndex(); got > applied {
				t.Errorf("%s takes entry %d for committed, which the leader has not written", n.name, got)
			}
		}
		leads.disk.release()
		c.mustOpen(leads, within)
	})
}
