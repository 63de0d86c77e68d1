package node

import (
	"errors"
	"strings"
	"testing"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// capacities waits until every node has bounds.
func (c *testCluster) capacities(want session.Capacity) {
	c.t.Helper()
	c.eventually("the cluster's bounds", within, func() bool {
		for _, n := range c.nodes {
			if n.view.Usage().Capacity != want {
				return false
			}
		}
		return true
	})
}

// O4: opens beyond the cluster's bound are refused through every node, cost no entry, and find room when a session has
// ended. The next leader brings its own value, and ends nobody by a lower one.
func TestO4TheClusterIsFull(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		most := map[session.Node]uint64{1: 3, 2: 3, 3: 3}
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Sessions.MaxSessions = most[cfg.Node] })
		defer c.stop()
		leads := c.leader(within)
		want := leads.cfg.Sessions.Capacity()
		c.capacities(want)
		var all []session.Grant
		for _, n := range c.nodes {
			all = append(all, c.mustOpen(n, within))
		}
		before := leads.view.AppliedIndex()
		for _, n := range c.nodes {
			_, err := c.open(n, within)
			limit, ok := errors.AsType[*session.LimitError](err)
			if !ok || limit.Name != "max_sessions" || limit.Limit != "3 sessions, 3 open" ||
				limit.RetryAfter != session.FullRetryAfter {
				t.Errorf("%s: open beyond the bound: %v", n.name, err)
			}
		}
		if after := leads.view.AppliedIndex(); after != before {
			t.Errorf("%d entries for opens that were refused, want none", after-before)
		}
		status, err := leads.Status(t.Context())
		if err != nil || status.MaxSessions != 3 || status.SessionsGlobal != 3 || status.StateBytes == 0 ||
			status.MaxStateBytes != want.MaxBytes {
			t.Errorf("status is %+v, %v", status, err)
		}
		c.eventually("a warning", within, func() bool {
			return strings.Contains(leads.log.String(), "limit nearly reached")
		})

		// The others start again with lower values; one of them leads next.
		for _, n := range c.others(leads) {
			most[n.cfg.Node] = 2
			if err := c.end(n); err != nil {
				t.Fatal(err)
			}
			c.start(n)
			c.eventually(n.name+" serves", within, func() bool { return n.server.Ready() == nil })
		}
		if err := c.end(leads); err != nil {
			t.Fatal(err)
		}
		next := c.leader(within, leads)
		c.eventually("the next leader's bounds", within, func() bool {
			return next.view.Usage().Capacity.MaxSessions == 2
		})
		if got := next.view.Sessions(); got != 3 {
			t.Errorf("%d sessions under a lower bound, want all 3", got)
		}
		for i := range all[:2] {
			if _, err := c.open(next, within); !errors.Is(err, session.ErrLimit) {
				t.Errorf("open with %d of 2: %v", 3-i, err)
			}
			conn := listen(t, next)
			g, err := conn.Resume(t.Context(), session.ResumeRequest{Token: all[i].Token, Instance: 1, Attempt: 1})
			if err != nil {
				t.Fatalf("resume without room: %v", err)
			}
			if err := conn.Close(t.Context(), g.Token); err != nil {
				t.Fatalf("close without room: %v", err)
			}
			conn.Disconnect()
		}
		c.mustOpen(next, within)
		c.start(leads)
		c.eventually("all agree", within, func() bool { return leads.view.Usage() == next.view.Usage() })
	})
}
