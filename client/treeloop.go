package client

import (
	"context"
	"errors"

	"holdfast/client/internal/core"
	"holdfast/session"
	"holdfast/tree"
)

// treeWaiter is a caller that waits for a read or a write of the tree.
type treeWaiter struct {
	core.TreeCall
	answer chan core.Done // room for one answer: the core gives no other
	// without says what it means that the core has never heard of the call.
	without error
}

func newTreeWaiter() *treeWaiter {
	w := &treeWaiter{answer: make(chan core.Done, 1)}
	w.Handle = w
	return w
}

// waitTree hands the loop the input of a caller, and returns the answer. When ctx ends first, it tells the core, which
// then answers.
func (l *loop) waitTree(ctx context.Context, w *treeWaiter, in core.Input) core.Done {
	if err := context.Cause(ctx); err != nil {
		return core.Done{Err: errors.Join(w.without, err)}
	}
	if !l.do(in) {
		return core.Done{Err: errors.Join(w.without, session.ErrClosed)}
	}
	select {
	case d := <-w.answer:
		return d
	case <-ctx.Done():
	}
	l.do(core.GiveUpTree{Call: &w.TreeCall, Cause: context.Cause(ctx)})
	return <-w.answer // the core answers every call before it ends
}

// write carries out a write of a session.
func (l *loop) write(ctx context.Context, s *Session, x tree.Transaction, o writeOptions) (tree.Result, error) {
	w := newTreeWaiter()
	w.Transaction, w.Will, w.without, w.Trace = x, o.will, ErrNoEffect, placeOf(ctx, &l.cfg)
	w.UntilAnswered = o.untilAnswered
	d := l.waitTree(ctx, w, core.Write{Call: &w.TreeCall, Session: s.core})
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
	in := core.Read{Call: &w.TreeCall}
	if t.session != nil {
		in.Session = t.session.core
	}
	d := l.waitTree(ctx, w, in)
	switch {
	case once == nil:
	case d.Err != nil:
		once.w.heard(core.Heard{Err: ErrNotSet})
	case once.w.stopped(): // before the core knew of it
		l.do(core.DropWatch{Watch: &once.w.watch})
	}
	return d.Answer, d.Err
}

// tellTree tells watches and callers what became of them: events before the answers that show them (G1).
func (l *loop) tellTree(e *core.Effects) {
	for i := range e.Heard {
		if w, ok := e.Heard[i].Watch.Handle.(*subscription); ok {
			w.heard(e.Heard[i])
		}
	}
	for _, d := range e.Done {
		if w, ok := d.Call.Handle.(*treeWaiter); ok {
			w.answer <- d
		}
	}
}
