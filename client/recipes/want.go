package recipes

import (
	"context"

	"holdfast/tree"
)

// named is w under another name for observers.
func (w want) named(recipe string) want {
	w.recipe = recipe
	return w
}

// want is what a contender in a line wants.
type want struct {
	// recipe is the name for observers, prefix that of the entries.
	recipe, prefix string
	// ahead is the rule for whom its place waits.
	ahead rule
	// holder names a holder, "" if there is none. Only callers that do not wait use it.
	holder func(ctx context.Context, l line) (string, error)
}

// grant waits for a grant. data is the entry's data.
func (l line) grant(ctx context.Context, w want, data []byte) (*Grant, error) {
	try := l.begins(w.recipe)
	g, err := l.wait(ctx, w, data, try)
	try.ended(err)
	return g, err
}

// wait enters the line and waits for its turn, and for a promise of the session.
func (l line) wait(ctx context.Context, w want, data []byte, try attempt) (*Grant, error) {
	if err := check(l.path); err != nil {
		return nil, err
	}
	p, err := l.enter(ctx, w.prefix, data)
	if err != nil {
		return nil, err
	}
	if err = p.turn(ctx, w.ahead); err == nil {
		var g *Grant
		if g, err = newGrant(ctx, p, try); err == nil {
			return g, nil
		}
	}
	p.leave(err)
	return nil, err
}

// try is grant for a caller that does not wait: the error is [ErrBusy] if a contender is ahead.
func (l line) try(ctx context.Context, w want, data []byte) (*Grant, error) {
	try := l.begins(w.recipe)
	name, err := w.holder(ctx, l)
	if err == nil && name != "" {
		err = ErrBusy
	}
	var g *Grant
	if err == nil {
		w.ahead = busy(w.ahead)
		g, err = l.wait(ctx, w, data, try)
	}
	try.ended(err)
	return g, err
}

// busy is a rule that returns [ErrBusy] instead of a contender to wait for.
func busy(ahead rule) rule {
	return func(ctx context.Context, p *place) (string, error) {
		name, err := ahead(ctx, p)
		if err == nil && name != "" {
			err = ErrBusy
		}
		return name, err
	}
}

func (l line) lock(ctx context.Context, w want) (*Hold, error) {
	g, err := l.grant(ctx, w, []byte(l.o.holder))
	if err != nil {
		return nil, failed("lock", l.path, err)
	}
	return &Hold{g}, nil
}

func (l line) tryLock(ctx context.Context, w want) (*Hold, error) {
	g, err := l.try(ctx, w, []byte(l.o.holder))
	if err != nil {
		return nil, failed("try lock", l.path, err)
	}
	return &Hold{g}, nil
}

func (l line) do(ctx context.Context, w want, work func(context.Context, tree.Stamp) error) error {
	h, err := l.lock(ctx, w)
	if err != nil {
		return err
	}
	return failed("hold", l.path, h.during(ctx, work))
}
