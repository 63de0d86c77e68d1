package client

import (
	"context"
	"testing"
	"time"

	"holdfast/test/bubble"
	"holdfast/tree"
)

// V2: a one-shot that a read has set hears of nothing that the read has shown, although its client comes back from an
// older stamp for the sake of another watch.
func TestV2OneShotsHearOfNothingTheirReadHasShown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		c.change(create("/a"), create("/b"))
		all := watchAll(t, cl.Tree(), "/b", tree.WatchPersistent)
		c.change(set("/a"))
		once := NewOneShot()
		shown, err := cl.Tree().Get(t.Context(), "/a", WithWatch(once))
		if err != nil {
			t.Fatal(err)
		}
		c.owner(s).down()
		time.Sleep(5 * time.Second)
		c.change(set("/b"))
		wantStrings(t, all.take(), "started", "/b data changed")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if e, err := once.Wait(ended); err == nil {
			t.Errorf("heard of %v of %v, and the read had shown all up to %v", e.Kind, e.Stamp, shown.Stamp)
		}
		c.change(set("/a"))
		if e, err := once.Wait(t.Context()); err != nil || e.Stamp <= shown.Stamp {
			t.Errorf("heard of %v, %v, want a change above %v", e, err, shown.Stamp)
		}
	})
}

// V5: answers raise the stamp that a client comes back from.
func TestV5AnswersAreTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		c.change(create("/a"), create("/b"))
		all := watchAll(t, cl.Tree(), "/b", tree.WatchPersistent)
		for range 3 {
			c.change(set("/a"))
		}
		if _, err := cl.Tree().Get(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		c.set(func() { c.tree.start = c.tree.now() })
		c.owner(s).down()
		time.Sleep(5 * time.Second)
		c.change(set("/b"))
		wantStrings(t, all.take(), "started", "/b data changed")
	})
}
