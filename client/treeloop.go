package client

import (
	"context"
	"errors"

	"holdfast/client/internal/core"
	trees "holdfast/client/internal/core/tree"
	"holdfast/session"
	"holdfast/tree"
)

// treeWaiter is a caller that waits for a read or a write of the tree.
type treeWaiter struct {
	trees.Call
	answer chan trees.Done // buffers one answer: the core gives exactly one
	// without is the error when the core never received the call.
	without error
}

func newTreeWaiter() *treeWaiter {
	w := &treeWaiter{answer: make(chan trees.Done, 1)}
	w.Handle = w
	return w
}

// waitTree queues the input of a caller, and returns the answer. When ctx ends first, waitTree informs the core, which
// then answers.
func (l *loop) waitTree(ctx context.Context, w *treeWaiter, in core.Input) trees.Done {
	if err := context.Cause(ctx); err != nil {
		return trees.Done{Err: errors.Join(w.without, err)}
	}
	if !l.do(in) {
		return trees.Done{Err: errors.Join(w.without, session.ErrClosed)}
	}
	select {
	case d := <-w.answer:
		return d
	case <-ctx.Done():
	}
	l.do(core.GiveUpTree{Call: &w.Call, Cause: context.Cause(ctx)})
	return <-w.answer // the core answers every call before it ends
}

// write carries out a write of a session.
func (l *loop) write(ctx context.Context, s *Session, x tree.Transaction, o writeOptions) (tree.Result, error) {
	w := newTreeWaiter()
	w.Transaction, w.Will, w.without, w.Trace = x, o.will, ErrNoEffect, placeOf(ctx, &l.cfg)
	w.UntilAnswered = o.untilAnswered
	d := l.waitTree(ctx, w, core.Write{Call: &w.Call, Session: s.core})
	return d.Result, d.Err
}

// read carries out a read, which sets once if that is not nil.
func (l *loop) read(ctx context.Context, t *Tree, q tree.Query, once *OneShot) (tree.Answer, error) {
	w := newTreeWaiter()
	w.Query = q
	if once != nil {
		if !once.w.begin(l, t) {
			return tree.Answer{}, &session.FieldError{Field: "watch", Limit: "not one that was used before"}
		}
		w.Watch = &once.w.watch
	}
	in := core.Read{Call: &w.Call}
	if t.session != nil {
		in.Session = t.session.core
	}
	d := l.waitTree(ctx, w, in)
	switch {
	case once == nil:
	case d.Err != nil:
		once.w.deliver(trees.Delivery{Err: ErrNotSet})
	case once.w.stopped(): // before the core knew of the watch
		l.do(core.DropWatch{Watch: &once.w.watch})
	}
	return d.Answer, d.Err
}

// notifyTree notifies watches and callers: events before the answers that show them (G1 order per connection).
func (l *loop) notifyTree(e *core.Effects) {
	for i := range e.Tree.Deliveries {
		if w, ok := e.Tree.Deliveries[i].Watch.Handle.(*subscription); ok {
			w.deliver(e.Tree.Deliveries[i])
		}
	}
	for _, d := range e.Tree.Done {
		if w, ok := d.Call.Handle.(*treeWaiter); ok {
			w.answer <- d
		}
	}
}
