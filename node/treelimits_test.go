package node

import (
	"testing"

	"holdfast/node/config"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// W8: the replicas share the limits of the leader's settings, and take new ones from the log.
func TestW8LimitsOfTheTree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		limits := config.Tree{QuotasByACL: true, MaxBytes: tree.DefaultBytes}
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Tree = limits })
		defer c.stop()
		shared := func() {
			t.Helper()
			c.eventually("the limits", within, func() bool {
				for _, n := range c.nodes {
					if n.view.Tree().Limits != limits.Limits() {
						return false
					}
				}
				return true
			})
		}
		shared()
		limits.QuotasByACL, limits.MaxBytes = false, tree.MinBytes
		for _, n := range c.nodes {
			c.restart(n)
			c.leader(within)
		}
		shared()
	})
}

// founded waits until every node has applied the Configure that founds the cluster.
func (c *testCluster) founded() {
	c.t.Helper()
	c.eventually("the cluster is founded", within, func() bool {
		for _, n := range c.nodes {
			if n.view.Tree().Level == 0 {
				return false
			}
		}
		return true
	})
}
