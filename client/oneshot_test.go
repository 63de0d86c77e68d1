package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/test/bubble"
	"holdfast/tree"
)

// V2: a one-shot that a read has set receives no change that the read has shown, although its client comes back from an
// older stamp for another watch.
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

// V4: a watch of an entry's existence knows whether the entry existed, so it comes back with its kind.
func TestV4ExistsWatchesKeepTheirKind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		c.change(create("/stays"), create("/goes"))
		stays := watchAll(t, cl.Tree(), "/stays", tree.WatchExists)
		goes := watchAll(t, cl.Tree(), "/goes", tree.WatchExists)
		comes := watchAll(t, cl.Tree(), "/comes", tree.WatchExists)
		here := c.owner(s)
		for _, n := range c.all() {
			n.down()
		}
		c.change(tree.Delete{Path: "/goes", Version: tree.Any}, create("/comes"))
		c.others(here)[0].up()
		time.Sleep(5 * time.Second)
		wantStrings(t, stays.take(), "started")
		wantStrings(t, goes.take(), "started", "/goes deleted")
		wantStrings(t, comes.take(), "started", "/comes created")
		c.change(set("/stays"))
		wantStrings(t, stays.take(), "/stays data changed")
	})
}

// A data or child watch of a missing entry is refused: it would look like a watch whose entry has gone.
func TestWatchesOfNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTreeTrial(t, 1)
		for _, kind := range []tree.WatchKind{tree.WatchData, tree.WatchChild} {
			w := watchAll(t, cl.Tree(), "/none", kind)
			if !errors.Is(w.err, &tree.RefusedError{Code: tree.NoNode}) {
				t.Errorf("a watch of kind %v of no entry: %v, want no node", kind, w.err)
			}
		}
	})
}

// A one-shot that is stopped while its read is in flight leaves nothing behind, at the client or the node.
func TestAOneShotThatIsStoppedBeforeItIsSet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		block := make(chan struct{})
		c.node(1).answer(func(string) error {
			<-block
			return nil
		})
		once, read := NewOneShot(), make(chan error)
		go func() {
			_, _, err := cl.Tree().Exists(t.Context(), "/a", WithWatch(once))
			read <- err
		}()
		synctest.Wait()
		once.Stop()
		close(block)
		if err := <-read; err != nil {
			t.Error(err)
		}
		if _, err := once.Wait(t.Context()); !errors.Is(err, ErrNotSet) {
			t.Errorf("got %v, want ErrNotSet", err)
		}
		synctest.Wait()
		c.set(func() {
			for s := range c.node(1).streams {
				if len(s.watches) > 0 {
					t.Errorf("the node watches %v", s.watches)
				}
			}
		})
	})
}
