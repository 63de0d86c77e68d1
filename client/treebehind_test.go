package client

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// V4: an event due to one watch is an old event for another watch of the same connection, which receives it once: of
// two requests for due events, the watches of the first come back with those of the second.
func TestV4OldEventsOfOtherWatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive) // in the first request, the last of these in the second
		for i := range tree.MaxWatches {
			watchAll(t, cl.Tree(), fmt.Sprintf("/%04d", i), tree.WatchPersistent)
		}
		last := fmt.Sprintf("/%04d", tree.MaxWatches-1)
		c.owner(s).down()
		c.change(create(last), set(last))
		c.change(tree.Delete{Path: last, Version: tree.Any})
		time.Sleep(5 * time.Second)
		wantStrings(t, all.take(), "started", last+" created", last+" data changed", last+" deleted")
	})
}

// V4: a new watch waits for watches with due events. Otherwise their events would reach it after newer events.
func TestV4NewWatchesWaitForDueEvents(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		mustOpen(t, cl, 12*time.Second)
		old := watchAll(t, cl.Tree(), "/b", tree.WatchRecursive)
		c.change(create("/b"))
		n := c.node(1)
		n.down()
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive) // the smaller path
		asked := 0
		n.answer(func(kind string) error {
			if kind != "watch" {
				return nil
			}
			if asked++; asked != 2 {
				return nil
			}
			go func() { // before the second request is repeated
				c.change(set("/b"))
				c.change(tree.Delete{Path: "/b", Version: tree.Any})
			}()
			return session.ErrLagging
		})
		n.up()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if asked < 3 {
			t.Fatalf("the node was asked %d times", asked)
		}
		wantStrings(t, old.take(), "started", "/b created", "/b data changed", "/b deleted")
		heard := all.take()
		if len(heard) == 1 { // it started after the changes
			heard = append(heard, "/b data changed", "/b deleted")
		}
		wantStrings(t, heard, "started", "/b data changed", "/b deleted")
	})
}

// I13: a write waits like a read while watches are owed something: its answer would come before events that it shows.
func TestI13WritesWaitForDueEvents(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		c.change(create("/a"))
		s := mustOpen(t, cl, 12*time.Second)
		all, next := watchAll(t, cl.Tree(), "/", tree.WatchRecursive), c.other(s)
		refused := false
		next.answer(func(kind string) error {
			if kind == "watch" && !refused {
				refused = true
				return session.ErrLagging
			}
			return nil
		})
		for _, n := range c.all() {
			n.down()
		}
		c.change(set("/a"))
		next.up()
		mustCreate(t, s.Tree(), "/b", CreateOptions{})
		wantStrings(t, all.take(), "started", "/a data changed", "/b created")
		var order []string
		for _, m := range next.record() {
			if kind := kindOf(m); kind == "watch" || kind == "write" {
				order = append(order, kind)
			}
		}
		wantStrings(t, order, "watch", "watch", "write")
	})
}

// V5: an answer says that all events up to its stamp were told. A node tells nothing else to a client that reads often.
func TestV5AnswersRaiseTheDeliveredStamp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		all := watchAll(t, cl.Tree(), "/a", tree.WatchRecursive)
		c.change(create("/b"))
		if _, err := cl.Tree().Get(t.Context(), "/b"); err != nil {
			t.Fatal(err)
		}
		c.set(func() { c.tree.start = c.tree.now() })
		c.node(1).down()
		c.change(create("/a"))
		c.node(1).up()
		time.Sleep(5 * time.Second)
		wantStrings(t, all.take(), "started", "/a created")
	})
}
