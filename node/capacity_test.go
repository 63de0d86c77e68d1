package node

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/clientport"
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
			if !ok || limit.Name != "max_sessions" || limit.Limit != "3 sessions, of which there are 3" ||
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
			return strings.Contains(leads.log.String(), "little room is left")
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

// One warning for each time that four fifths are reached; coming and going about them is not one.
func TestFullnessWarnsOnce(t *testing.T) {
	var log bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true})
	var u session.Usage
	f := roomForSessions("cluster", func() session.Usage { return u })
	u.Capacity = session.Capacity{MaxSessions: 100, MaxBytes: 1000}
	warnings := 0
	for _, step := range []struct {
		sessions, bytes uint64
		warns           bool
	}{
		{79, 1, false},
		{80, 1, true},
		{79, 1, false},
		{95, 1, false},
		{70, 1, false},
		{80, 1, false},
		{69, 1, false},
		{80, 1, true},
		{1, 1, false},
		{1, 800, true},
		{1, 699, false},
		{1, 1200, true},
	} {
		u.Sessions, u.Bytes = step.sessions, step.bytes
		before := strings.Count(log.String(), "little room is left")
		f.look(logger)
		warnings = strings.Count(log.String(), "little room is left")
		if (warnings > before) != step.warns {
			t.Errorf("%d of 100 sessions, %d of 1000 bytes: warned %v, want %v", step.sessions, step.bytes,
				warnings > before, step.warns)
		}
	}
	if !strings.Contains(log.String(), "max_sessions=100") || !strings.Contains(log.String(), "bytes=800") ||
		!strings.Contains(log.String(), "room again") {
		t.Errorf("the log says %s", log.String())
	}
	u = session.Usage{Sessions: 1 << 40}
	again := roomForSessions("", func() session.Usage { return u })
	again.look(logger)
	if got := strings.Count(log.String(), "little room is left"); got != warnings {
		t.Error("warned without bounds")
	}
}

// The log warns of a tree that is nearly full, with the setting that bounds the tree.
func TestFullnessOfTheTree(t *testing.T) {
	var log bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true})
	status := clientport.TreeStatus{Entries: 7, Limit: 1000}
	f := roomForTree(func() clientport.TreeStatus { return status })
	for _, step := range []struct {
		bytes uint64
		says  string
	}{
		{799, ""},
		{800, "little room is left: writes that add to it are refused when there is none: entries=7 bytes=800 " +
			"max_tree_bytes=1000 of=tree"},
		{999, ""},
		{699, "there is room again: entries=7 bytes=699 max_tree_bytes=1000 of=tree"},
	} {
		log.Reset()
		status.Bytes = step.bytes
		f.look(logger)
		if got := log.String(); step.says == "" && got != "" || !strings.Contains(got, step.says) {
			t.Errorf("%d bytes of 1000: the log says %q, want %q", step.bytes, got, step.says)
		}
	}
}
