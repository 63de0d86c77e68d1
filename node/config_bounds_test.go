package node

import (
	"testing"
	"time"

	"holdfast/test/bubbles"
)

// A follower applies an open after the leader has answered it: the shortest wait that can be configured is enough for one that
// is well, or its opens would be refused although they are done.
func TestTheShortestLaggingWaitIsEnoughForAFollower(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *Config) { cfg.LaggingWait = shortestLaggingWait(t) })
		defer c.stop()
		follower := c.others(c.leader(within))[0]
		for range 20 {
			c.mustOpen(follower, within)
		}
	})
}

// shortestLaggingWait is the lowest that the settings take, to the millisecond.
func shortestLaggingWait(t *testing.T) time.Duration {
	t.Helper()
	c := validConfig(t)
	for c.LaggingWait = 0; c.LaggingWait <= time.Second; c.LaggingWait += time.Millisecond {
		if _, err := c.Complete(); err == nil {
			return c.LaggingWait
		}
	}
	t.Fatal("no lagging_wait is allowed")
	return 0
}
