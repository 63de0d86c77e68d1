package node

import (
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A new cluster cannot have a node with the number of one that was removed from the former cluster: all ids of the
// number are used up (I7), so that the node would open no session, and as a further peer would never be taken in.
func TestRestoreRefusesTheNumberOfARemovedNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		claim := session.ClaimIDs{Node: 2, MS: session.MaxMS, Count: session.MaxClaim}
		if _, err := leads.consensus.proposer.Propose(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		file := c.save(leads)
		for _, founders := range []int{1, 3} { // node 2 is to be taken in later, or founds the cluster
			other := unfounded(t, 3)
			f := other.founding(founders)
			if made, err := Restore(file, f); err == nil || !strings.Contains(err.Error(), "node 2") ||
				!strings.Contains(err.Error(), "number") {
				t.Errorf("%d directories: %v, %v, want an error that names node 2", founders, made, err)
			}
			for node, path := range f.Directories {
				if err := unused(path); err != nil {
					t.Errorf("node %d: %v", node, err)
				}
			}
		}
	})
}
