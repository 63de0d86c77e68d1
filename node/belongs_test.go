package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// A node that was removed from its cluster, and knows, is not read-only: the cluster goes on without it for ever.
func TestN1ARemovedMemberShowsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, readOnlyOn)
		defer c.stop()
		leads := c.leader(within)
		g := c.mustOpen(leads, 5*time.Second)
		gone := c.others(leads)[0]
		c.eventually("the session is known to all", within, func() bool {
			_, ok := gone.view.Session(g.Session.ID)
			return ok
		})
		defer c.removed(leads, gone)()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if s := gone.server.State(); s.Mode == session.ModeReadOnly {
				t.Fatalf("it is %v at index %d", s.Mode, s.Index)
			}
		}
		if _, err := gone.server.Find(t.Context(), g.Session.ID, anyRead(0)); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("a read: %v, want %v", err, session.ErrNoLeader)
		}
	})
}

// removed has the cluster that leads leads go on without gone, and cuts gone off once it knows that, or the leader
// takes it in again; it returns what heals the cut. A leader sends the entry of a removal to the removed node once at
// most, after which the node learns of it together with its return: the removal is then repeated.
func (c *testCluster) removed(leads, gone *testNode) (heal func()) {
	c.t.Helper()
	for range 20 {
		c.eventually("it is a member", within, func() bool {
			return gone.membership.DirectoryOf(gone.cfg.Node) != 0 && leads.membership.DirectoryOf(gone.cfg.Node) != 0
		})
		if err := leads.consensus.Raft.RemoveServer(raftnet.ServerID(gone.cfg.Node, gone.membership.OwnDirectory()),
			0, 0).Error(); err != nil {
			c.t.Fatal(err)
		}
		c.eventually("it knows, or is back", within, func() bool {
			return gone.membership.DirectoryOf(gone.cfg.Node) == 0 || leads.membership.DirectoryOf(gone.cfg.Node) != 0
		})
		heal = c.cut(gone, c.others(gone)...)
		synctest.Wait()
		if gone.membership.DirectoryOf(gone.cfg.Node) == 0 {
			return heal
		}
		heal()
	}
	c.t.Fatal("it was removed 20 times, and has not learnt of it once")
	return nil
}
