package node

import (
	"fmt"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// W7: a node takes a snapshot after so many bytes of log, long before the number of entries demands one,
// and keeps no more bytes behind it. A follower that was away comes back from the snapshot. A node that starts again
// goes on counting.
func TestW7LargeLogsAreCut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const bound = 100_000
		c := newTestCluster(t, 0, func(cfg *config.Config) { cfg.Tuning.LogBytes = bound })
		c.add(3)
		for _, n := range c.nodes {
			c.start(n)
		}
		defer c.stop()
		leads := c.leader(within)
		away := c.others(leads)[0]
		if err := c.end(away); err != nil {
			t.Fatal(err)
		}
		fill := func() {
			for i := range 40 {
				var labels session.Labels
				for n := range 16 {
					labels = append(labels, session.Label{Key: fmt.Sprintf("k%02d", n), Value: fmt.Sprintf("%0250d", i)})
				}
				c.openWith(leads, labels)
			}
			time.Sleep(3 * time.Second)
		}
		for round := range 3 {
			fill()
			first, err := leads.consensus.Store.Log().FirstIndex()
			if err != nil {
				t.Fatal(err)
			}
			last := leads.consensus.Raft.LastIndex()
			if kept := last - first + 1; kept > 60 || kept < 10 {
				t.Errorf("round %d: the log has %d entries of 4 kB, bound %d bytes", round, kept, bound)
			}
		}
		c.start(away)
		c.agree(time.Minute)
		c.openWith(leads, nil) // behind the newest snapshot
		restarted := leads
		c.restart(restarted)
		leads = c.leader(within)
		c.agree(time.Minute)
		before := newestSnapshot(t, restarted)
		fill()
		if after := newestSnapshot(t, restarted); after <= before {
			t.Errorf("the newest snapshot after a start ends with entry %d, and with %d before", after, before)
		}
	})
}

// openWith opens a session with labels through n.
func (c *testCluster) openWith(n *testNode, labels session.Labels) {
	c.t.Helper()
	conn, err := n.server.Connect(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.opens++
	if _, err = conn.Open(c.t.Context(), session.OpenRequest{
		RequestID: session.RequestID{c.opens, 1}, Spec: session.Spec{Timeout: 40 * time.Second, Labels: labels},
		MS: session.MS(time.Now()),
	}); err != nil {
		c.t.Fatal(err)
	}
}

// newestSnapshot returns the last entry of a node's newest snapshot.
func newestSnapshot(t *testing.T, n *testNode) uint64 {
	t.Helper()
	all, err := n.consensus.Store.Snapshots().List()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d snapshots, %v", len(all), err)
	}
	return all[0].Index
}
