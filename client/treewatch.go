package client

import (
	"context"
	"errors"
	"iter"

	"holdfast/tree"
)

// WatchBuffer is how many events a watch keeps for a slow reader. Beyond it the oldest are dropped, and the reader is
// told that events are lost.
const WatchBuffer = 4096

// WatchEvent is what [Tree.Watch] yields: an event, or one of the two marks.
type WatchEvent struct {
	// Event is what has happened. With a mark it has a Stamp alone.
	tree.Event
	// Started says that the watch is in place: it hears of every change above Stamp. It comes first, and once.
	Started bool
	// Lost says that events up to Stamp may be missing: read again what matters. Later ones will be told. It comes when
	// the client was away for too long (V4), when the reader is too slow (V6), and with the Reason
	// [session.ErrClusterChanged] when the cluster is another one: stamps and data from before mean nothing any more.
	Lost   bool
	Reason error
}

// Watch yields what happens at path, until ctx ends or the loop that ranges over it does. What is unread when ctx ends
// is left out. It begins with a mark that the watch is in place: read after that, and no change is missed. The watch
// survives lost connections and moves: no event is left out, or the mark Lost says so, and none comes twice. Events
// come in the order of their stamps. They come late from a node that is behind, and with [Config].ReadOnly also from
// one that hears of no leader, until the client finds a better one.
//
// kind is [tree.WatchPersistent] for the entry and its children, or [tree.WatchRecursive] for the entry and all below
// it; the path need not exist. With one of the other kinds, a read sets the watch, which ends after one event. A data
// or child watch of an entry that does not exist is refused with [tree.NoNode]. An error is yielded last; it wraps the
// cause of ctx when that has ended, and the last obstacle if the watch has not been in place.
func (t *Tree) Watch(ctx context.Context, path string, kind tree.WatchKind) iter.Seq2[WatchEvent, error] {
	return func(yield func(WatchEvent, error) bool) {
		w, err := t.subscribe(ctx, path, kind)
		if err != nil {
			yield(WatchEvent{}, t.wrap("watch", path, err))
			return
		}
		defer w.stop()
		for {
			e, err := w.next(ctx)
			switch {
			case err != nil:
				yield(WatchEvent{}, t.wrap("watch", path, err))
				return
			case !yield(e, nil), !e.Started && kind.OneShot():
				return
			}
		}
	}
}

// ErrNotSet is the error of a watch that no read has set, or that was stopped.
var ErrNotSet = errors.New("the watch is not set")

// OneShot is a watch that a read has set: it hears once, see [WithWatch]. Safe for concurrent use.
type OneShot struct{ w *subscription }

// NewOneShot returns a watch for [WithWatch].
func NewOneShot() *OneShot { return &OneShot{w: newSubscription()} }

// Wait returns the event. The watch survives lost connections and moves. The error wraps the cause of ctx when that has
// ended: Wait may be called again. It is [ErrNotSet] if no read has set the watch, and [session.ErrClusterChanged] when
// the cluster is another one: nobody can tell what has happened to the entry.
func (w *OneShot) Wait(ctx context.Context) (tree.Event, error) { return w.w.wait(ctx) }

// Stop ends the watch, which hears nothing any more.
func (w *OneShot) Stop() { w.w.stop() }
