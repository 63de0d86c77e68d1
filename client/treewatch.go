package client

import (
	"context"
	"errors"
	"iter"

	"holdfast/tree"
)

// WatchBuffer is how many events a watch keeps for a slow reader. Further events drop the oldest, and the reader gets
// the mark Lost.
const WatchBuffer = 4096

// WatchEvent is what [Tree.Watch] yields: an event, or one of the two marks.
type WatchEvent struct {
	// Event is the change. With a mark only its Stamp is set.
	tree.Event
	// Started reports whether the watch is in place: it delivers every change above Stamp. Started comes first, and
	// once.
	Started bool
	// Lost reports whether events up to Stamp may be missing: read again what matters. Later events will be delivered.
	// Lost comes when the client was away for too long (V4 resumed watches), when the reader is too slow (V6 LOST), and
	// with the Reason [session.ErrClusterChanged] when the cluster is another one: stamps and data from before mean
	// nothing any more.
	Lost   bool
	Reason error
}

// Watch yields changes at path, until ctx ends or the loop that ranges over it does. Events that are unread when ctx
// ends are left out. The first event is a mark that the watch is in place: read after the mark, and no change is
// missed. The watch survives lost connections and moves: it yields each event once, or reports with the mark Lost that
// events may be missing. Events come in the order of their stamps. They come late from a node that is behind, and with
// [Config].ReadOnly also from a node that knows no leader, until the client finds a better node.
//
// kind is [tree.WatchPersistent] for the entry and its children, or [tree.WatchRecursive] for the entry and all entries
// below; the path need not exist. With other kinds, a read sets the watch, which ends after one event. A data or child
// watch of an entry that does not exist is refused with [tree.NoNode]. An error is yielded last; it wraps the cause of
// ctx when ctx has ended, and the last obstacle if the watch was not in place.
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

// OneShot is a watch that a read has set: it fires once, see [WithWatch]. Safe for concurrent use.
type OneShot struct{ w *subscription }

// NewOneShot returns a watch for [WithWatch].
func NewOneShot() *OneShot { return &OneShot{w: newSubscription()} }

// Wait returns the event. The watch survives lost connections and moves. The error wraps the cause of ctx when ctx has
// ended: Wait may be called again. The error is [ErrNotSet] if no read has set the watch, and
// [session.ErrClusterChanged] when the cluster is another one: the entry's history is then unknown.
func (w *OneShot) Wait(ctx context.Context) (tree.Event, error) { return w.w.wait(ctx) }

// Stop ends the watch; no event follows.
func (w *OneShot) Stop() { w.w.stop() }
