package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// A watch ends with its context, however many events are unread. One without unread events does so too.
func TestWatchesEndWithTheirContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		c.change(create("/a"))
		for _, unread := range []int{0, 3} {
			ctx, cancel := context.WithCancel(t.Context())
			after := 0
			var ended error
			for e, err := range cl.Tree().Watch(ctx, "/a", tree.WatchPersistent) {
				switch {
				case err != nil:
					ended = err
				case e.Started:
					for range unread {
						c.change(set("/a"))
					}
					synctest.Wait()
					cancel()
				default:
					after++
				}
			}
			if after > 0 || !errors.Is(ended, context.Canceled) {
				t.Errorf("of %d unread events %d came after the end of the context, then %v", unread, after, ended)
			}
			cancel()
		}
	})
}

// A watch and a mirror that do not come about say what stood in the way: that no node answers, or what one answered. A
// watch that is in place ends with the cause of its context alone.
func TestWatchesReportTheirObstacle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		n, late := c.node(1), errors.New("too late")
		watch := func(ctx context.Context) (ended error) {
			for _, err := range cl.Tree().Watch(ctx, "/", tree.WatchRecursive) {
				ended = err
			}
			return ended
		}
		mirror := func(ctx context.Context) error {
			_, err := cl.Tree().Mirror(ctx, "/")
			return err
		}
		for _, call := range []func(context.Context) error{watch, mirror} {
			ended := func() error {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, late)
				defer cancel()
				return call(ctx)
			}
			n.down()
			if err := ended(); !errors.Is(err, late) || !errors.Is(err, ErrUnreachable) {
				t.Errorf("without a node: %v, want ErrUnreachable and the cause", err)
			}
			n.up()
			n.refuse("watch", session.ErrLagging)
			if err := ended(); !errors.Is(err, late) || !errors.Is(err, session.ErrLagging) {
				t.Errorf("refused: %v, want ErrLagging and the cause", err)
			}
			n.heal()
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, late)
		defer cancel()
		time.AfterFunc(time.Second, n.down)
		if err := watch(ctx); !errors.Is(err, late) || errors.Is(err, ErrUnreachable) {
			t.Errorf("a watch that was in place: %v, want the cause", err)
		}
	})
}

// A node that refuses one more watch of a path has not ended the one that it has: that goes on.
func TestARefusedWatchEndsNoOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		first := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		c.node(1).refuse("watch", &session.LimitError{Name: "watch_bytes_per_connection", Limit: "1"})
		second := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		second.take()
		if limit, ok := errors.AsType[*session.LimitError](second.err); !ok || limit.Name != "watch_bytes_per_connection" {
			t.Errorf("the second watch: %v, want the limit", second.err)
		}
		c.node(1).heal()
		c.change(create("/a"))
		wantStrings(t, first.take(), "started", "/a created")
		if first.err != nil {
			t.Errorf("the first watch: %v", first.err)
		}
		third := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		c.change(create("/b"))
		wantStrings(t, third.take(), "started", "/b created")
		wantStrings(t, first.take(), "/b created")
	})
}
