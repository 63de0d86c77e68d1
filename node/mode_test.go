package node

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

func readOnlyOn(c *config.Config) { c.ReadOnly = true }

// anyRead is a read that allows old state, and no older than what was seen.
func anyRead(seen uint64) session.ReadOptions {
	return session.ReadOptions{AllowReadOnly: true, Seen: seen}
}

// becomes waits for a node's mode.
func (c *testCluster) becomes(n *testNode, want session.Mode) {
	c.t.Helper()
	c.eventually(n.name+" is "+want.String(), within, func() bool { return n.server.State().Mode == want })
}

// TestN1AnElectionAloneOpensNothing holds that nodes which lose their leader, and elect another, are not read-only
// meanwhile.
func TestN1AnElectionAloneOpensNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, readOnlyOn)
		defer c.stop()
		for range 12 {
			leads := c.leader(within)
			time.Sleep(3 * time.Second)
			heal := c.cut(leads, c.others(leads)...) // its silence takes longer to be noticed than the end of its process
			for !c.elected(leads) {
				for _, n := range c.others(leads) {
					if s := n.server.State(); s.Mode == session.ModeReadOnly {
						t.Fatalf("%s is read-only while the others elect", n.name)
					}
				}
				time.Sleep(10 * time.Millisecond)
			}
			heal()
			c.eventually("all serve", within, func() bool { return leads.health.Check() == nil })
		}
	})
}

// elected reports whether the nodes but one have a leader among them, and serve.
func (c *testCluster) elected(but *testNode) bool {
	others := c.others(but)
	return slices.ContainsFunc(others, func(n *testNode) bool { return n.Leads() }) &&
		!slices.ContainsFunc(others, func(n *testNode) bool { return n.health.Check() != nil })
}

// A node that is cut off serves what it has to those that allow it, and nothing else, until it is back.
func TestReadOnlyAloneAndBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, readOnlyOn)
		defer c.stop()
		leads := c.leader(within)
		alone := c.others(leads)[0]
		conn := listen(t, alone)
		defer conn.Disconnect()
		g, err := conn.Open(
			t.Context(), session.OpenRequest{
				RequestID: session.RequestID{99}, Spec: session.Spec{Timeout: 40 * time.Second},
				MS: session.MS(time.Now()),
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		heal := c.cut(alone, c.others(alone)...)
		later := c.mustOpen(leads, 5*time.Second) // of which the node that is alone knows nothing
		seen := leads.server.State().Index
		c.becomes(alone, session.ModeReadOnly)
		for _, n := range c.others(alone) {
			if got := n.server.State().Mode; got != session.ModeReadWrite {
				t.Errorf("%s, of two that have a quorum, is %v", n.name, got)
			}
		}

		state := alone.server.State()
		if l, err := alone.server.Find(t.Context(), g.Session.ID, anyRead(state.Index)); err != nil ||
			l.Remaining >= 0 {
			t.Errorf("read at %+v: %+v, %v", state, l, err)
		}
		if page, err := alone.server.List(t.Context(), session.Query{Size: 10, Read: anyRead(0)}); err != nil ||
			len(page.Sessions) != 1 {
			t.Errorf("listed %+v, %v; want the one session that the node knows", page, err)
		}
		if _, err := alone.server.Find(t.Context(), g.Session.ID, anyRead(seen)); !errors.Is(err, session.ErrLagging) ||
			state.Index >= seen {
			t.Errorf("read by who has seen %d at %d: %v, want %v", seen, state.Index, err, session.ErrLagging)
		}
		if _, err := alone.server.Find(t.Context(), later.Session.ID, anyRead(0)); !errors.Is(err, session.ErrExpired) {
			t.Errorf("what is not in the state yet: %v, want %v", err, session.ErrExpired)
		}
		bound, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := alone.server.Find(bound, g.Session.ID, session.ReadOptions{}); err == nil {
			t.Error("a linearizable read was answered without a quorum")
		}
		if _, err := c.open(alone, time.Second); !errors.Is(err, session.ErrReadOnly) {
			t.Errorf("open: %v, want %v", err, session.ErrReadOnly)
		}
		if _, err := conn.Resume(t.Context(),
			session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1}); !errors.Is(err, session.ErrReadOnly) {
			t.Errorf("resume: %v, want %v", err, session.ErrReadOnly)
		}
		if got := conn.Touch(nil); len(got.Failures) > 0 {
			t.Errorf("touch: %+v", got)
		}
		c.tells(alone, session.ModeReadOnly)

		heal()
		c.becomes(alone, session.ModeReadWrite)
		if got := conn.Touch(nil); len(got.Failures) > 0 {
			t.Errorf("touch after healing: %+v", got)
		}
		for _, id := range []session.ID{g.Session.ID, later.Session.ID} {
			if l, err := alone.server.Find(t.Context(), id, anyRead(seen)); err != nil || l.Remaining < 0 {
				t.Errorf("after healing %v: %+v, %v", id, l, err)
			}
		}
		c.mustOpen(alone, 5*time.Second)
		c.tells(alone, session.ModeReadWrite)
		for _, word := range []string{"read-only: no good round for long", "no longer read-only"} {
			if !strings.Contains(alone.log.String(), word) {
				t.Errorf("the log does not say %q", word)
			}
		}
	})
}

// tells fails unless all that shows a node's mode shows this one: a node is ready when it takes writes.
func (c *testCluster) tells(n *testNode, want session.Mode) {
	c.t.Helper()
	ready := want == session.ModeReadWrite
	if ready {
		c.eventually(n.name+" serves", within, func() bool { return n.health.Check() == nil })
	}
	s, err := n.Status(c.t.Context())
	if err != nil || s.Mode != want || s.Ready != ready {
		c.t.Errorf("status is %+v, %v", s, err)
	}
	code, _ := c.get(n, "/healthz")
	if got := code == http.StatusOK; got != ready {
		c.t.Errorf("/healthz says %d of a node that is %v", code, want)
	}
	if got := n.measure().Mode; got != want {
		c.t.Errorf("the metric of the mode is %v, want %v", got, want)
	}
}

// A node that was restarted without a quorum has the state of its snapshot, and shows it to no client that has seen
// more.
func TestReadOnlyBehindAfterARestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) {
			readOnlyOn(cfg)
			cfg.Tuning.SnapshotThreshold, cfg.Tuning.SnapshotInterval = 1, 50*time.Millisecond
		})
		defer c.stop()
		leads := c.leader(within)
		n := c.others(leads)[0]
		before := c.mustOpen(n, 5*time.Second)
		c.eventually("a snapshot of it", within, func() bool {
			metas, err := n.consensus.Store.Snapshots().List()
			return err == nil && len(metas) > 0 && metas[0].Index >= before.Session.OpenedIndex
		})
		old := n.server.State().Index
		_ = c.end(n)
		c.mustOpen(leads, 5*time.Second)
		last := c.mustOpen(leads, 5*time.Second)
		seen := leads.server.State().Index
		for _, other := range c.others(n) {
			c.kill(other)
		}
		c.start(n)
		c.becomes(n, session.ModeReadOnly)
		if got := n.server.State().Index; got > old || got < before.Session.OpenedIndex {
			t.Errorf("it is at %d, want one from %d to %d", got, before.Session.OpenedIndex, old)
		}
		if _, err := n.server.Find(t.Context(), before.Session.ID, anyRead(before.Session.OpenedIndex)); err != nil {
			t.Errorf("read of what it has: %v", err)
		}
		for _, id := range []session.ID{before.Session.ID, last.Session.ID} {
			if _, err := n.server.Find(t.Context(), id, anyRead(seen)); !errors.Is(err, session.ErrLagging) {
				t.Errorf("read of %v by who has seen %d: %v, want %v", id, seen, err, session.ErrLagging)
			}
		}
		for _, other := range c.others(n) {
			c.start(other)
		}
		c.becomes(n, session.ModeReadWrite)
		c.eventually("what was seen is served", within, func() bool {
			l, err := n.server.Find(t.Context(), last.Session.ID, anyRead(seen))
			return err == nil && l.Remaining > 0
		})
	})
}

// Each node of a cluster without a quorum is read-only, whichever node led. A node whose setting is off serves nobody.
func TestReadOnlyIsEachNodesOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) {
			if cfg.Node != 3 {
				cfg.ReadOnly = true
			}
		})
		defer c.stop()
		c.leader(within)
		g := c.mustOpen(c.nodes[0], 5*time.Second)
		c.agree(within)
		for i, n := range c.nodes {
			defer c.cut(n, c.nodes[i+1:]...)()
		}
		c.becomes(c.nodes[0], session.ModeReadOnly)
		c.becomes(c.nodes[1], session.ModeReadOnly)
		for _, n := range c.nodes[:2] {
			if _, err := n.server.Find(t.Context(), g.Session.ID, anyRead(g.Session.OpenedIndex)); err != nil {
				t.Errorf("%s: %v", n.name, err)
			}
		}
		time.Sleep(time.Minute)
		if _, err := c.nodes[2].server.Find(t.Context(), g.Session.ID, anyRead(0)); !errors.Is(err,
			session.ErrNoLeader) {
			t.Errorf("a read of a node whose setting is off: %v, want %v", err, session.ErrNoLeader)
		}
		c.tells(c.nodes[2], session.ModeNoLeader)
	})
}

// A node with an empty directory, which the others have not taken in, and one of a cluster that never began have
// nothing to show.
func TestN1NothingToShow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, readOnlyOn)
		defer c.stop()
		leads := c.leader(within)
		c.mustOpen(leads, 5*time.Second)
		emptied := c.others(leads)[0]
		c.kill(emptied)
		c.empty(emptied)
		heal := c.cut(emptied, c.others(emptied)...)
		defer heal()
		c.start(emptied)
		time.Sleep(time.Minute)
		c.tells(emptied, session.ModeNoLeader)
	})
}

// TestK13AQuietElectionRefusesNobody holds that what a client has seen is reached by every node of a quorum after an
// election in which nobody wrote anything: ZooKeeper refuses such clients.
func TestK13AQuietElectionRefusesNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, readOnlyOn)
		defer c.stop()
		leads := c.leader(within)
		g := c.mustOpen(leads, 5*time.Second)
		for attempt := range uint64(6) {
			leads = c.leader(within)
			seen := uint64(0)
			for _, n := range c.nodes {
				seen = max(seen, n.server.State().Index)
			}
			c.kill(leads)
			c.eventually("the others serve", within, func() bool { return c.elected(leads) })
			for i, n := range c.others(leads) {
				if _, err := n.server.Find(t.Context(), g.Session.ID, session.ReadOptions{Seen: seen}); err != nil {
					t.Errorf("read at %s by who has seen %d: %v", n.name, seen, err)
				}
				conn := listen(t, n)
				r := session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 2*attempt + uint64(i) + 1, Seen: seen}
				granted, err := conn.Resume(t.Context(), r)
				if err != nil {
					t.Errorf("resume at %s by who has seen %d: %v", n.name, seen, err)
				} else {
					g = granted
				}
				conn.Disconnect()
			}
			c.start(leads)
			c.eventually("all serve", within, func() bool { return leads.health.Check() == nil })
		}
	})
}
