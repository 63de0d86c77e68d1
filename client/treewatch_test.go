package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	trees "holdfast/client/internal/core/tree"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// heardBy collects what a watch hears, until its context ends.
type heardBy struct {
	mu     sync.Mutex
	events []string // guarded by mu
	err    error    // guarded by mu
}

func watchAll(t *testing.T, in *Tree, path string, kind tree.WatchKind) *heardBy {
	t.Helper()
	h := &heardBy{}
	ctx := t.Context()
	go func() {
		for e, err := range in.Watch(ctx, path, kind) {
			h.add(e, err)
		}
	}()
	synctest.Wait()
	return h
}

func (h *heardBy) add(e WatchEvent, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.err = err
	case e.Started:
		h.events = append(h.events, "started")
	case e.Lost:
		h.events = append(h.events, "lost")
	default:
		h.events = append(h.events, e.Path+" "+e.Kind.String())
	}
}

// take returns what was heard since the last call.
func (h *heardBy) take() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.events
	h.events = nil
	return events
}

// heardAt is an event at a stamp.
func heardAt(s tree.Stamp) trees.Delivery { return trees.Delivery{Event: tree.Event{Stamp: s}} }

func create(path string) tree.Op { return tree.Create{Path: path, Kind: tree.Persistent} }

// set sets an entry's data, whatever its version.
func set(path string) tree.Op { return tree.Set{Path: path, Version: tree.Any} }

// Each kind of watch hears of its changes, below the chroot, and a stopped one of none.
func TestWatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		c.change(create("/app"), create("/app/a"))
		in, err := cl.Tree().Chroot("/app")
		if err != nil {
			t.Fatal(err)
		}
		recursive, persistent := watchAll(t, in, "/", tree.WatchRecursive), watchAll(t, in, "/a", tree.WatchPersistent)
		once, again := watchAll(t, in, "/a", tree.WatchData), watchAll(t, in, "/a", tree.WatchData)
		c.change(create("/app/a/b"))
		c.change(set("/app/a"))
		c.change(set("/app/a"))
		c.change(tree.Delete{Path: "/app/a/b", Version: tree.Any})
		wantStrings(t, recursive.take(), "started", "/a/b created", "/a data changed", "/a data changed", "/a/b deleted")
		wantStrings(t, persistent.take(), "started", "/a children changed", "/a data changed", "/a data changed",
			"/a children changed")
		wantStrings(t, once.take(), "started", "/a data changed")
		wantStrings(t, again.take(), "started", "/a data changed")
	})
}

// A watch that ends is taken from the node, the last one of its kind and path.
func TestEndedWatchesAreRemovedFromTheNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		mustOpen(t, cl, 12*time.Second)
		watches := func() (n int) {
			synctest.Wait()
			c.set(func() {
				for s := range c.node(1).streams {
					n += len(s.watches)
				}
			})
			return n
		}
		first, stop := context.WithCancel(t.Context())
		for range 2 {
			go func() {
				for _, err := range cl.Tree().Watch(first, "/", tree.WatchRecursive) {
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			}()
		}
		if got := watches(); got != 1 {
			t.Errorf("the node has %d watches, want 1 for both", got)
		}
		stop()
		if got := watches(); got != 0 {
			t.Errorf("the node has %d watches after the end, want none", got)
		}
	})
}

// V4: a client that moves hears of all that happened meanwhile, in order and once, although the stamp that it comes
// back from rises only with the last event of a stamp.
func TestV4WatchesComeBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		all, other := watchAll(t, cl.Tree(), "/", tree.WatchRecursive), watchAll(t, cl.Tree(), "/", tree.WatchPersistent)
		once := watchAll(t, cl.Tree(), "/c", tree.WatchExists)
		c.change(create("/a"), create("/b"))
		synctest.Wait()
		here := c.owner(s)
		for _, n := range c.all() {
			n.down()
		}
		c.change(set("/a"))
		c.change(create("/c"))
		c.others(here)[0].up()
		time.Sleep(5 * time.Second)
		c.change(set("/b"))
		want := []string{"started", "/a created", "/b created", "/a data changed", "/c created", "/b data changed"}
		wantStrings(t, all.take(), want...)
		wantStrings(t, other.take(), "started", "/ children changed", "/ children changed", "/ children changed")
		wantStrings(t, once.take(), "started", "/c created")
		for _, asked := range c.others(here)[0].record() {
			if len(asked) > 8 && slices.Contains([]string{"watch 3 since 0.0"}, asked[3:]) {
				t.Errorf("the client came back with %q", asked)
			}
		}
	})
}

// V4: the answer to a coming back that is refused or lost does not raise the stamp to come back from.
func TestV4ComingBackTwice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		c.change(create("/a"))
		wantStrings(t, all.take(), "started", "/a created")
		here, next := c.owner(s), c.other(s)
		next.refuse("watch", errMuteAfter) // the events come, and the answer does not
		here.down()
		c.change(create("/b"))
		synctest.Wait()
		c.change(create("/c"))
		synctest.Wait()
		here.up()
		next.down()
		time.Sleep(5 * time.Second)
		c.change(create("/d"))
		wantStrings(t, all.take(), "/b created", "/c created", "/d created")
	})
}

// V4, V6: a client that was away for too long is told so, and hears what happens from then on.
func TestV6WatchesReportLostEvents(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		mustOpen(t, cl, 12*time.Second)
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		c.change(create("/a"))
		wantStrings(t, all.take(), "started", "/a created")
		c.node(1).down()
		c.set(func() { c.tree.start = c.tree.now() + 1 })
		c.node(1).up()
		time.Sleep(5 * time.Second)
		c.change(create("/b"))
		wantStrings(t, all.take(), "lost", "/b created")
	})
}

// V6: a reader that is too slow is told so, and holds up nobody. That its watch is in place comes first all the same.
func TestV6SlowReaders(t *testing.T) {
	w := newSubscription()
	w.begin(&loop{}, &Tree{})
	w.deliver(trees.Delivery{Event: tree.Event{Stamp: 1}, Started: true})
	for i := range 2 * WatchBuffer {
		w.deliver(heardAt(tree.Stamp(i + 2)))
	}
	for i, want := range []WatchEvent{
		{Event: tree.Event{Stamp: 1}, Started: true},
		{Event: tree.Event{Stamp: 2*WatchBuffer - 2}, Lost: true},
		{Event: tree.Event{Stamp: 2*WatchBuffer - 1}},
		{Event: tree.Event{Stamp: 2 * WatchBuffer}},
		{Event: tree.Event{Stamp: 2*WatchBuffer + 1}},
	} {
		if got, none, err := w.pop(); err != nil || none != nil || got != want {
			t.Errorf("%d: got %+v, %v, want %+v", i, got, err, want)
		}
	}
}

// G2: a read sets a one-shot watch, which survives a move.
func TestG2OneShots(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		in := s.Tree()
		c.change(create("/a"))
		data, exists, child := NewOneShot(), NewOneShot(), NewOneShot()
		if _, err := in.Get(t.Context(), "/a", WithWatch(data)); err != nil {
			t.Fatal(err)
		}
		if _, found, err := in.Exists(t.Context(), "/b", WithWatch(exists)); err != nil || found {
			t.Fatal(found, err)
		}
		if _, err := in.ListPage(t.Context(), "/", Listing{}, WithWatch(child)); err != nil {
			t.Fatal(err)
		}
		c.change(set("/a"))
		for range 2 { // it stays
			if e, err := data.Wait(t.Context()); err != nil || e.Path != "/a" || e.Kind != tree.DataChanged {
				t.Errorf("data: %+v, %v", e, err)
			}
		}
		c.owner(s).down()
		c.change(create("/b"))
		if e, err := exists.Wait(t.Context()); err != nil || e.Path != "/b" || e.Kind != tree.EntryCreated {
			t.Errorf("exists: %+v, %v", e, err)
		}
		if e, err := child.Wait(t.Context()); err != nil || e.Path != "/" || e.Kind != tree.ChildrenChanged {
			t.Errorf("child: %+v, %v", e, err)
		}
	})
}

// A watch that was not set, was stopped, or is used twice says so.
func TestOneShotsThatAreNotSet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTreeTrial(t, 1)
		in := cl.Tree()
		if _, err := NewOneShot().Wait(t.Context()); !errors.Is(err, ErrNotSet) {
			t.Errorf("a fresh one: %v", err)
		}
		w := NewOneShot()
		if _, err := in.Get(t.Context(), "/none", WithWatch(w)); !errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			t.Errorf("a read of nothing: %v", err)
		}
		if _, err := w.Wait(t.Context()); !errors.Is(err, ErrNotSet) {
			t.Errorf("after a refused read: %v", err)
		}
		if _, err := in.Get(t.Context(), "/", WithWatch(w)); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("used twice: %v", err)
		}
		if _, err := in.GetACL(t.Context(), "/", WithWatch(NewOneShot())); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("with a read that sets none: %v", err)
		}
		w = NewOneShot()
		if _, err := in.Get(t.Context(), "/", WithWatch(w)); err != nil {
			t.Fatal(err)
		}
		w.Stop()
		if _, err := w.Wait(t.Context()); !errors.Is(err, ErrNotSet) {
			t.Errorf("stopped: %v", err)
		}
	})
}

// More watches than a request takes come back in several, and none hears twice or out of order.
func TestManyWatchesComeBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		var each []*heardBy
		for i := range tree.MaxWatches + 10 {
			each = append(each, watchAll(t, cl.Tree(), fmt.Sprintf("/%04d", i), tree.WatchPersistent))
		}
		c.owner(s).down()
		for i := range each {
			c.change(create(fmt.Sprintf("/%04d", i)), set(fmt.Sprintf("/%04d", i)))
		}
		time.Sleep(5 * time.Second)
		for i, h := range each {
			path := fmt.Sprintf("/%04d", i)
			wantStrings(t, h.take(), "started", path+" created", path+" data changed")
		}
	})
}

// V4: a connection that breaks between two events of one stamp brings the first one twice, and the reader has it once.
func TestV4BreaksInsideAStamp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		mustOpen(t, cl, 12*time.Second)
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		c.set(func() {
			c.tree.index++
			c.tree.apply(tree.NumberedWrite{Transaction: tree.Transaction{Then: []tree.Op{create("/a"), create("/b")}}}, 0)
			for s := range c.node(1).streams {
				s.tellIf(true, c.tree.log[0])
			}
		})
		wantStrings(t, all.take(), "started", "/a created")
		c.node(1).down()
		c.node(1).up()
		time.Sleep(5 * time.Second)
		wantStrings(t, all.take(), "/b created")
	})
}

// V4: what was told on the way back does not come again when the connection breaks soon after, and what the node tells
// of other watches before its answer does not count.
func TestV4BreaksAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		mustOpen(t, cl, 12*time.Second)
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		n := c.node(1)
		c.change(create("/a"))
		n.down()
		c.change(create("/b"))
		c.change(create("/c"))
		for range 2 {
			n.up()
			time.Sleep(5 * time.Second)
			n.down()
		}
		wantStrings(t, all.take(), "started", "/a created", "/b created", "/c created")
		c.change(create("/d"))
		n.refuse("watch", errMute)
		n.up()
		time.Sleep(time.Second)
		var now tree.Stamp
		c.set(func() { now = c.tree.now() })
		n.broadcast(&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Progress{Progress: &holdfastv1.Progress{Stamp: uint64(now)}},
		})
		synctest.Wait()
		n.down()
		n.heal()
		n.up()
		time.Sleep(5 * time.Second)
		wantStrings(t, all.take(), "/d created")
	})
}

// A client that only watches comes back when its node has gone: no session makes it.
func TestAClientThatOnlyWatchesComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		all := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		c.change(create("/a"))
		synctest.Wait()
		for _, n := range c.all() {
			if slices.ContainsFunc(n.record(), func(asked string) bool { return strings.Contains(asked, "watch") }) {
				n.down()
			}
		}
		time.Sleep(5 * time.Second)
		c.change(create("/b"))
		wantStrings(t, all.take(), "started", "/a created", "/b created")
	})
}
