package node

import (
	"strings"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// A node that is stopped in order logs no error, and neither do the nodes that stay, whether it leads or follows. A
// node that stays says once that it does not reach the other.
func TestACleanStopLogsNoError(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		leads := c.leader(within)
		c.mustOpen(leads, 5*time.Second)
		if err := c.end(leads); err != nil {
			t.Error(err)
		}
		next := c.leader(within, leads)
		time.Sleep(5 * time.Minute)
		c.mustOpen(next, 5*time.Second)
		c.start(leads)
		time.Sleep(time.Minute)
		c.stop()
		for _, n := range c.nodes {
			if text := n.log.String(); strings.Contains(text, "[ERROR]") ||
				strings.Count(text, "another node is not reached") > 2 {
				t.Errorf("%s:\n%s", n.name, text)
			}
		}
		if text := next.log.String(); !strings.Contains(text, "another node is not reached") {
			t.Errorf("nobody has missed the node that was stopped:\n%s", text)
		}
	})
}
