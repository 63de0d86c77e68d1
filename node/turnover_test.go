package node

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// Every node tells what it has applied, whoever leads, and begins anew with its process.
func TestStatusTellsWhatWasApplied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := withTree(t)
		defer c.stop()
		leads := c.leader(within)
		told := func(want session.Turnover, nodes ...*testNode) {
			t.Helper()
			for _, n := range nodes {
				var got session.Turnover
				c.eventually("what was applied", within, func() bool {
					s, err := n.Status(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					got = s.Turnover
					return got == want
				})
			}
		}
		told(session.Turnover{}, c.nodes...)
		owner := c.resumedOnce(leads)
		c.write(leads, owner, 1, tree.Create{Path: "/a", Kind: tree.Persistent})
		c.write(leads, owner, 2, tree.Create{Path: "/b", Kind: tree.Persistent})
		other := c.mustOpen(c.others(leads)[0], within)
		told(session.Turnover{Opens: 2, Moves: 1, TreeWrites: 2}, c.nodes...)
		c.killed(leads, other.Session.ID)
		told(session.Turnover{Opens: 2, Moves: 1, Kills: 1, TreeWrites: 2}, c.nodes...)
		c.eventually("the end of the first, which nobody touches", 5*time.Minute, func() bool {
			_, alive := leads.view.Session(owner.Session.ID)
			return !alive
		})
		told(session.Turnover{Opens: 2, Moves: 1, Kills: 1, Expiries: 1, TreeWrites: 2}, c.nodes...)
		follower := c.others(leads)[0]
		if err := follower.consensus.Raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		c.restart(follower)
		c.founded()
		told(session.Turnover{}, follower)
	})
}
