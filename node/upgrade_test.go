package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/clientport"
)

// upgradeOf returns what a node's status says of upgrades.
func (c *testCluster) upgradeOf(n *testNode) clientport.UpgradeStatus {
	c.t.Helper()
	s, err := n.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return s.Upgrade
}

// The leader names what holds the feature level back, member by member, and refuses an operator for the same reasons.
// Once every member offers the level, an operator raises it without a restart (W8).
func TestW8AnOperatorRaisesTheLevel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := founded(t, config.RaiseFounded, 2)
		defer c.stop()
		leads := c.leader(within)
		for leads == c.nodes[2] { // of the older release
			c.restart(leads)
			leads = c.leader(within, c.nodes[2])
		}
		other := c.others(leads)[0]
		refused := func(n *testNode, level uint32, want string) {
			t.Helper()
			_, err := n.RaiseFeatureLevel(t.Context(), level)
			if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "level" ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("raise to %d: %v, want %q", level, err, want)
			}
		}
		c.eventually("node 3 follows the leader", within, func() bool {
			offers := c.upgradeOf(leads).Offers
			return len(offers) == 3 && offers[2].Connected
		})
		s := c.upgradeOf(leads)
		if s.Offered != session.FeatureLevel || len(s.Offers) != 3 ||
			s.Offers[2] != (session.Offer{Node: 3, Connected: true}) ||
			!slices.Equal(s.HeldBackBy, []string{"node 3 runs a release that offers feature level 0"}) {
			t.Errorf("an older node: %+v", s)
		}
		const newest = session.FeatureLevel
		bounds := fmt.Sprintf("1 to %d", newest)
		refused(leads, newest, "node 3 runs a release")
		refused(leads, 0, bounds)
		refused(leads, newest+1, bounds)
		if s := c.upgradeOf(other); len(s.Offers) > 0 || len(s.HeldBackBy) > 0 {
			t.Errorf("a node that does not lead says %+v", s)
		}
		if err := c.end(c.nodes[2]); err != nil {
			t.Fatal(err)
		}
		c.eventually("the leader misses node 3", within, func() bool {
			return slices.Equal(c.upgradeOf(leads).HeldBackBy, []string{"node 3 is not connected to the leader"})
		})
		refused(leads, newest, "node 3 is not connected")
		c.nodes[2].lacks = 0
		c.start(c.nodes[2])
		c.eventually("nobody holds it back but the operator", within, func() bool {
			why := c.upgradeOf(leads).HeldBackBy
			return len(why) == 1 && strings.Contains(why[0], fmt.Sprint("holdfast cluster raise ", newest)) &&
				strings.Contains(why[0], "tree is auto")
		})
		c.noTree()
		if _, err := other.RaiseFeatureLevel(t.Context(), newest); !errors.Is(err, session.ErrNotLeader) {
			t.Errorf("a node that does not lead: %v", err)
		}
		for range 2 { // the second changes nothing
			if now, err := leads.RaiseFeatureLevel(t.Context(), newest); err != nil || now != newest {
				t.Fatalf("raised to %d, %v", now, err)
			}
		}
		c.trees()
		if s := c.upgradeOf(leads); len(s.HeldBackBy) > 0 {
			t.Errorf("after the raise: %+v", s)
		}
	})
}
