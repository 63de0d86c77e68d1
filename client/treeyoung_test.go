package client

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// W8, I11: a node that has just begun says that the cluster has no tree. A watch that comes to it waits, and misses
// nothing.
func TestW8AYoungNodeEndsNoWatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		c.change(create("/a"))
		wantStrings(t, all.take(), "started", "/a created")
		var young *fakeNode
		for _, n := range c.all() {
			if slices.ContainsFunc(n.record(), func(asked string) bool { return strings.Contains(asked, "watch") }) {
				n.down()
				continue
			}
			young = n
		}
		c.set(func() { young.young = true })
		time.Sleep(5 * time.Second)
		c.change(create("/b"))
		wantStrings(t, all.take())
		c.set(func() { young.young = false })
		time.Sleep(5 * time.Second)
		wantStrings(t, all.take(), "/b created")
		if all.err != nil {
			t.Errorf("the watch has ended: %v", all.err)
		}
	})
}

// W8: a node that hears of no leader does not know whether the cluster has a tree. A client that has seen none waits.
func TestW8ANodeWithoutALeaderDoesNotKnow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		n := c.node(1)
		c.set(func() { n.young, n.state.Mode = true, session.ModeNoLeader })
		got := make(chan error, 1)
		go func() {
			_, err := cl.Tree().Get(t.Context(), "/")
			got <- err
		}()
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("a read at a node without a leader: %v", err)
		default:
		}
		c.set(func() { n.young, n.state.Mode = false, session.ModeReadWrite })
		if err := <-got; err != nil {
			t.Errorf("a read once there is a leader: %v", err)
		}
		time.Sleep(5 * time.Second)
		wantStrings(t, all.take(), "started")
	})
}
