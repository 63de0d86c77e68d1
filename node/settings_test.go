package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/test/bubble"
)

// Nodes whose settings differ serve, both say which and how, and a node that is started again with the value of the
// others ends it.
func TestSettingsThatDifferAreTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		other := "n2"
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		c.leader(within)
		n := c.nodes[1]
		c.change = func(cfg *config.Config) {
			if strings.HasSuffix(cfg.DataDir, other) {
				cfg.Sessions.HeartbeatInterval = 600 * time.Millisecond
			}
		}
		c.restart(n)
		c.eventually("all serve", 2*within, func() bool {
			return !slices.ContainsFunc(c.nodes, func(n *testNode) bool { return n.health.Check() != nil })
		})
		time.Sleep(3 * complaintInterval)
		for i, want := range []string{
			`heartbeat_interval is "500ms" on node 1 and "600ms" on node 2`,
			`heartbeat_interval is "600ms" on node 2 and "500ms" on node 1, "500ms" on node 3`,
			`heartbeat_interval is "500ms" on node 3 and "600ms" on node 2`,
		} {
			if got := c.nodes[i].admission.SettingsDifferences(); len(got) != 1 || got[0] != want {
				t.Errorf("%s finds %q, want %q", c.nodes[i].name, got, want)
			}
			if s, err := c.nodes[i].Status(t.Context()); err != nil || !strings.Contains(s.Warning, want) {
				t.Errorf("the status of %s warns of %q, %v, want %q", c.nodes[i].name, s.Warning, err, want)
			}
			if log := strings.ReplaceAll(c.nodes[i].log.String(), `\"`, `"`); strings.Count(log,
				"settings differ between nodes") != 1 || !strings.Contains(log, want) {
				t.Errorf("the log of %s does not say once %q", c.nodes[i].name, want)
			}
		}
		c.change = nil
		c.restart(n)
		c.leader(2 * within)
		time.Sleep(3 * complaintInterval)
		for _, n := range c.nodes {
			if got := n.admission.SettingsDifferences(); len(got) != 0 {
				t.Errorf("%s finds %q when all are the same again", n.name, got)
			}
		}
	})
}
