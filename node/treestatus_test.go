package node

import (
	"testing"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/clientport"
	"holdfast/tree"
)

// Status tells the size of the tree, also after a start from a snapshot.
func TestStatusTellsTheSizeOfTheTree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := withTree(t)
		defer c.stop()
		leads := c.leader(within)
		size := func(n *testNode) clientport.TreeStatus {
			t.Helper()
			s, err := n.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Tree
		}
		empty := size(leads)
		if empty != (clientport.TreeStatus{
			FeatureLevel: session.FeatureLevel, Entries: 3, Bytes: empty.Bytes, Limit: tree.DefaultBytes,
		}) {
			t.Errorf("an empty tree: %+v", empty)
		}
		owner := c.resumedOnce(leads)
		c.write(leads, owner, 1, tree.Create{Path: "/a", Kind: tree.Persistent, Data: make([]byte, 1000)},
			tree.Create{Path: "/a/b", Kind: tree.Ephemeral, Data: make([]byte, 200)})
		c.found("/a/b", 3, within)
		got := size(leads)
		if more := got.Bytes - empty.Bytes; got.Entries != 5 || got.Ephemerals != 1 || more < 1700 || more > 1800 ||
			got.Results < 32 || got.Results > 200 {
			t.Errorf("with two entries of 1,200 bytes and a result: %+v, and %+v before", got, empty)
		}
		other := c.others(leads)[0]
		if err := other.consensus.Raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		c.restart(other)
		c.founded()
		c.found("/a/b", 3, within)
		if again := size(other); again != got {
			t.Errorf("after a start from a snapshot %+v, want %+v", again, got)
		}
	})
}
