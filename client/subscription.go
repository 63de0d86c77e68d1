package client

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"holdfast/client/internal/core"
	trees "holdfast/client/internal/core/tree"
	"holdfast/session"
	"holdfast/tree"
)

// subscription is a watch and its unread events. Safe for concurrent use.
type subscription struct {
	// watch belongs to the loop, once the watch is registered.
	watch trees.Watch

	mu   sync.Mutex
	loop *loop // guarded by mu; nil before the watch has begun
	tree *Tree // guarded by mu; has the reader's chroot
	// unread are the events in their order, at most [WatchBuffer]. guarded by mu
	unread []WatchEvent
	// started: the watch is in place, or was. guarded by mu
	started bool
	err     error         // guarded by mu; why no more come
	more    chan struct{} // guarded by mu; closed when there is something to read; nil without a waiting reader
}

func newSubscription() *subscription {
	w := &subscription{}
	w.watch.Handle = w
	return w
}

// begin records the owner of the watch. It reports false if the watch was started before.
func (w *subscription) begin(l *loop, t *Tree) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loop != nil || w.err != nil {
		return false
	}
	w.loop, w.tree = l, t
	return true
}

// deliver queues a delivery without waiting for a reader: a reader that is too slow gets the mark Lost.
func (w *subscription) deliver(h trees.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	switch {
	case h.Err != nil:
		w.err = h.Err
	case len(w.unread) >= WatchBuffer:
		lost := WatchEvent{Event: tree.Event{Stamp: w.unread[len(w.unread)-1].Stamp}, Lost: true}
		for _, e := range w.unread {
			lost.Reason = cmp.Or(e.Reason, lost.Reason)
		}
		first := w.unread[:0]
		if w.unread[0].Started { // always comes first, however late the reader is
			first = w.unread[:1]
		}
		w.unread = append(first, lost)
		fallthrough
	default:
		h.Event.Path = w.tree.relative(h.Event.Path)
		w.unread = append(w.unread, WatchEvent{Event: h.Event, Started: h.Started, Lost: h.Lost, Reason: h.Reason})
		w.started = w.started || h.Started
	}
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
}

// first returns the first unread event without removing it. Without an event it returns a channel that is closed when
// an event arrives, or the error that ended the watch.
func (w *subscription) first() (WatchEvent, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peek()
}

// pop is first, and removes the event.
func (w *subscription) pop() (WatchEvent, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, more, err := w.peek()
	if more == nil && err == nil {
		w.unread = w.unread[1:]
	}
	return e, more, err
}

// peek is first, with mu held.
func (w *subscription) peek() (WatchEvent, <-chan struct{}, error) {
	switch {
	case len(w.unread) > 0:
		return w.unread[0], nil, nil
	case w.err != nil:
		return WatchEvent{}, nil, w.err
	case w.loop == nil:
		return WatchEvent{}, nil, ErrNotSet
	case w.more == nil:
		w.more = make(chan struct{})
	}
	return WatchEvent{}, w.more, nil
}

// unreadNow removes and returns all unread events.
func (w *subscription) unreadNow() []WatchEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.unread
	w.unread = nil
	return all
}

// mark queues a mark behind the events so far, for a reader that waits for the mark.
func (w *subscription) mark(stamp tree.Stamp) {
	w.deliver(trees.Delivery{Event: tree.Event{Stamp: stamp}, Started: true})
}

// next waits for the next event and removes it. After the end of ctx it returns none, however many are unread:
// otherwise a reader slower than the events would never notice the end.
func (w *subscription) next(ctx context.Context) (WatchEvent, error) {
	for {
		if ctx.Err() != nil {
			return WatchEvent{}, w.giveUp(context.Cause(ctx))
		}
		e, more, err := w.pop()
		if err != nil || more == nil {
			return e, err
		}
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
}

// giveUp returns why a watch ended whose reader stopped waiting. For a watch that is not in place yet, the core knows
// the obstacle.
func (w *subscription) giveUp(cause error) error {
	w.mu.Lock()
	l, pending := w.loop, !w.started && w.err == nil
	w.mu.Unlock()
	if !pending || !l.do(core.GiveUpWatch{Watch: &w.watch, Cause: cause}) {
		return cause
	}
	for {
		_, more, err := w.pop()
		switch {
		case errors.Is(err, cause):
			return err
		case err != nil: // the watch has ended on its own meanwhile
			return errors.Join(cause, err)
		case more != nil:
			<-more // the core ends every watch before it ends
		}
	}
}

// wait waits for the event of a one-shot, which stays for later calls.
func (w *subscription) wait(ctx context.Context) (tree.Event, error) {
	for {
		e, more, err := w.first()
		switch {
		case err != nil:
			return tree.Event{}, err
		case more == nil && !e.Started:
			return e.Event, nil
		case more == nil:
			w.dropMark()
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return tree.Event{}, context.Cause(ctx)
		}
	}
}

// dropMark removes the mark that the watch is in place.
func (w *subscription) dropMark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unread) > 0 && w.unread[0].Started {
		w.unread = w.unread[1:]
	}
}

// stop ends the watch.
func (w *subscription) stop() {
	w.mu.Lock()
	l := w.loop
	if w.err == nil {
		w.err = ErrNotSet
	}
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
	w.mu.Unlock()
	if l != nil {
		l.do(core.DropWatch{Watch: &w.watch})
	}
}

// stopped reports whether nothing more comes.
func (w *subscription) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

// subscribe begins a watch.
func (t *Tree) subscribe(ctx context.Context, path string, kind tree.WatchKind) (*subscription, error) {
	if !kind.Valid() {
		return nil, &session.FieldError{Field: "kind", Limit: "data, exists, child, persistent or recursive"}
	}
	if kind.OneShot() {
		return t.subscribeOnce(ctx, path, kind)
	}
	full, err := t.full(path)
	if err != nil {
		return nil, err
	}
	l, err := t.begin(ctx)
	if err != nil {
		return nil, err
	}
	w := newSubscription()
	w.begin(l, t)
	w.watch.Spec = tree.WatchSpec{Path: full, Kind: kind}
	if !l.do(core.AddWatch{Watch: &w.watch}) {
		return nil, session.ErrClosed
	}
	return w, nil
}

// subscribeOnce makes a read that sets a one-shot. The read shows whether the entry exists: without this a returning
// client could not know which event the watch has missed (V4 resumed watches).
func (t *Tree) subscribeOnce(ctx context.Context, path string, kind tree.WatchKind) (*subscription, error) {
	once := NewOneShot()
	err := t.setOnce(ctx, path, kind, once)
	if err != nil {
		once.Stop()
		return nil, err
	}
	return once.w, nil
}

// setOnce makes the cheapest read that sets a watch of the kind.
func (t *Tree) setOnce(ctx context.Context, path string, kind tree.WatchKind, once *OneShot) error {
	if kind == tree.WatchChild {
		_, err := t.ListPage(ctx, path, Listing{PageSize: 1}, WithWatch(once))
		return err
	}
	_, is, err := t.Exists(ctx, path, WithWatch(once))
	if err == nil && !is && kind == tree.WatchData {
		return &tree.RefusedError{Code: tree.NoNode, Verb: "watch", Path: path}
	}
	return err
}
