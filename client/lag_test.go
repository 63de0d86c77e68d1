package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// An index that no node reaches has reads refused, with an error that names the index. It ends no session.
func TestN4AnIndexThatNoNodeReachesEndsNoSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 4, func(cfg *Config) { cfg.ReadOnly = false })
		c.node(4).down() // a node that does not answer does not have the index
		a, b := mustOpen(t, cl, 10*time.Second), mustOpen(t, cl, 10*time.Second)
		first := c.owner(a)
		c.set(func() { first.state.Index = 1 << 60 })
		time.Sleep(5 * time.Second)
		first.down()
		time.Sleep(8 * time.Second)
		for _, s := range []*Session{a, b} {
			if s.State() != StateConnected || s.Owner() == first.number || s.Context().Err() != nil {
				t.Errorf("state %v, owner %d, context %v", s.State(), s.Owner(), s.Context().Err())
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := cl.Get(ctx, a.ID())
		if !errors.Is(err, session.ErrLagging) || !strings.Contains(err.Error(), "1152921504606846976") {
			t.Errorf("Get: got %v", err)
		}
	})
}

// The index in a status belongs to its node's cluster: it does not change the index of another cluster that the client
// has met.
func TestN4StatusCarriesTheIndexOfItsCluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newTestClient(t, c, c.endpoints(1, 2))
		for _, at := range []struct {
			node           int
			cluster, index uint64
		}{{1, 7, 1000}, {2, 8, 5}, {1, 7, 1000}} {
			n := c.node(at.node)
			c.set(func() { n.state = session.NodeState{Cluster: at.cluster, Index: at.index} })
			if _, err := cl.Status(t.Context(), n.address); err != nil || cl.SeenIndex() != at.index {
				t.Errorf("Status of node %d: %v, seen %d, want %d", at.node, err, cl.SeenIndex(), at.index)
			}
		}
	})
}

// Status may be asked of any address. The index of an address that is no server of the client does not count as seen.
func TestN4StatusOfAnUnconfiguredAddressIsIgnored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newTestClient(t, c, c.endpoints(1, 1))
		for i, want := range []uint64{0, 66} {
			if _, err := cl.Status(t.Context(), c.node(2-i).address); err != nil || cl.SeenIndex() != want {
				t.Errorf("Status of node %d: %v, seen %d, want %d", 2-i, err, cl.SeenIndex(), want)
			}
		}
	})
}
