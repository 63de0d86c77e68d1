package node

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/config"
	"holdfast/node/storage"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A new cluster cannot have a node with the number of one that was removed from the former cluster: all ids of the
// number are used up (I7 ids are never reused), so that the node would open no session, and as a further peer would
// never be taken in.
func TestRestoreRefusesTheNumberOfARemovedNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		claim := session.ClaimIDs{Node: 2, MS: session.MaxMS, Count: session.MaxClaim}
		if _, err := leads.consensus.Proposer.Propose(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		file := c.save(leads)
		for _, founders := range []int{1, 3} { // node 2 is to be taken in later, or founds the cluster
			other := unfounded(t, 3)
			f := other.founding(founders)
			if made, err := storage.Restore(file, f); err == nil || !strings.Contains(err.Error(), "node 2") ||
				!strings.Contains(err.Error(), "number") {
				t.Errorf("%d directories: %v, %v, want an error that names node 2", founders, made, err)
			}
			for node, path := range f.Directories {
				if left, err := os.ReadDir(path); len(left) > 0 {
					t.Errorf("node %d: left behind are %v, %v", node, left, err)
				}
			}
		}
	})
}

// After a member was removed, the directory of another one says which number no peer of a new cluster may have. With
// the former peers but this one, and a new number in its place, the new cluster is made.
func TestASurvivorNamesTheRemovedNodes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		leads := c.leader(within)
		claim := session.ClaimIDs{Node: 2, MS: session.MaxMS, Count: session.MaxClaim}
		if _, err := leads.consensus.Proposer.Propose(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		path := c.config(leads).DataDir
		c.stop()
		s, err := storage.OpenSurvivor(path, "test", hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if !slices.Equal(s.UsedUp, []session.Node{2}) {
			t.Errorf("removed: %v, want node 2", s.UsedUp)
		}
		f := unfounded(t, 3).founding(1)
		for _, p := range f.Peers {
			if _, founds := f.Directories[p.Node]; founds && p.Node == 2 {
				t.Fatal("node 2 founds the cluster: the test needs another one")
			}
		}
		if _, err = s.Found(f); err == nil || !strings.Contains(err.Error(), "node 2: no ids of this number are left") ||
			!strings.Contains(err.Error(), "take the node out of --peers") ||
			!strings.HasSuffix(err.Error(), "numbers without ids: [2]") {
			t.Errorf("with the former peers: %v", err)
		}
		at := slices.IndexFunc(f.Peers, func(p config.Peer) bool { return p.Node == 2 })
		f.Peers[at].Node = 4
		if made, err := s.Found(f); err != nil || !strings.Contains(fmt.Sprint(made), "ready to start") {
			t.Errorf("with node 4 in the place of node 2: %v, %v", made, err)
		}
	})
}
