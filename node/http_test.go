package node

import (
	"testing"
	"time"

	"holdfast/test/bubble"
)

// A browser keeps connections on which it has asked for nothing yet. They hold up no stop, and make none fail.
func TestSilentConnectionsHoldUpNoStop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		c.leader(within)
		n := c.others(c.leader(within))[0]
		conn, err := c.Host("browser").Dial(t.Context(), n.name+":7403")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		time.Sleep(time.Second) // the server has it
		begun := time.Now()
		if err := c.end(n); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took >= 2*time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}
