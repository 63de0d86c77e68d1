package node

import (
	"testing"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// M1: the log says which entries every member reads, so the next leader writes them though a member is down, and so do
// nodes that start again.
func TestTheLogSaysWhatEveryMemberReads(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Tree.Raise = config.RaiseNever })
		defer c.stop()
		leads := c.leader(within)
		c.eventually("the log version", within, func() bool {
			for _, n := range c.nodes {
				if n.view.LogVersion() != session.AutoLogVersion {
					return false
				}
			}
			return true
		})
		c.kill(leads) // one that drains tells the next leader what it reads
		next := c.leader(within, leads)
		c.eventually("the next leader's tracker", within, func() bool {
			tracker := next.roles.terms.tracker.Load()
			return tracker != nil && tracker.LogVersion() == session.AutoLogVersion
		})
	})
}
