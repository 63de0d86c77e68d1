package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// DoubleBarrier lets a number of sessions start together and end together. Enter waits until all have entered, Leave
// until all have left. A caller that gives up or dies while it enters has not entered, and a caller that dies inside
// has left. When all have left, the barrier may be used again. Safe for concurrent use.
//
//	         Enter           all have entered          Leave             all have left
//	away ------------> ENTERING ------------> INSIDE ------------> LEAVING -------------> away
//	  ^                   |                     |                    |
//	  |  ctx ends, broken,|                     |    session ends    |
//	  +-------------------+---------------------+--------------------+
type DoubleBarrier struct {
	line   line
	number int
}

const (
	insideName = "inside"
	insider    = "member-"
	// MaxMembers is the number of sessions at a [DoubleBarrier], at most.
	MaxMembers = 10_000
)

// NewDoubleBarrier returns the barrier at a path, for a number of callers, 1 to [MaxMembers], without contacting the
// cluster. All callers must use the same number; the first caller sets it.
func NewDoubleBarrier(s *client.Session, path string, number int, o ...Option) *DoubleBarrier {
	return &DoubleBarrier{newLine(s, path, o), number}
}

// Inside is what a caller holds between Enter and Leave.
type Inside struct {
	place *place
	// round is the stamp of the entry above the entries of a round's callers.
	round tree.Stamp
}

// Enter waits until all have entered. When ctx ends first, the error wraps its cause, and the caller has not entered;
// other callers may already have entered together with it.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Inside, error) {
	try := b.line.begins("double barrier")
	i, err := b.enter(ctx)
	if try.ended(err); err == nil {
		try.heldUntilOver(i.place)
	}
	return i, failed("enter", b.line.path, err)
}

func (b *DoubleBarrier) enter(ctx context.Context) (*Inside, error) {
	if err := check(b.line.path); err != nil {
		return nil, err
	}
	if b.number < 1 || b.number > MaxMembers {
		return nil, &session.FieldError{Field: "number", Limit: fmt.Sprintf("1 to %d", MaxMembers)}
	}
	if err := sized(ctx, b.line.in, b.line.path, strconv.Itoa(b.number)+" members"); err != nil {
		return nil, err
	}
	inside := b.line
	inside.path = tree.Join(b.line.path, insideName)
	if err := inside.clear(ctx); err != nil {
		return nil, err
	}
	p, err := handed(ctx, func(ctx context.Context) (*place, error) { return inside.member(ctx, b.number) })
	if err != nil {
		return nil, err
	}
	round, err := p.complete(ctx)
	if err != nil {
		p.leave(err)
		return nil, err
	}
	return &Inside{place: p, round: round}, nil
}

// clear removes what remains of a round whose members have all died.
func (l line) clear(ctx context.Context) error {
	above, exists, err := l.in.Exists(ctx, l.path)
	if err == nil && exists && full(above) && above.Children == 0 {
		err = l.reset(ctx, above.Created)
	}
	if errors.Is(err, &tree.RefusedError{Code: tree.NotEmpty}) {
		return nil // a member has come
	}
	return err
}

// full reports whether all have entered, from the state of the entry above them.
func full(above tree.Stat) bool { return above.Version > 0 }

// member creates the entry of a member. The entry that completes the number also changes the data of the entry above,
// in the same transaction: this records that all were inside at one moment, however soon a member leaves.
func (l line) member(ctx context.Context, number int) (*place, error) {
	enter := tree.Create{
		Path: tree.Join(l.path, insider), Sequential: true, Kind: tree.Ephemeral, LockDelay: l.o.lockDelay,
		Data: []byte(l.o.holder), ACL: l.o.acl,
	}
	for {
		done, err := l.in.Transact(ctx, tree.Transaction{
			If: []tree.Condition{
				{Path: l.path, Property: tree.ChildCount, Is: tree.Equal, Value: uint64(number - 1)}, //nolint:gosec // not negative
				{Path: l.path, Property: tree.DataVersion, Is: tree.Equal, Value: 0},
			},
			Then: []tree.Op{enter, tree.Set{Path: l.path, Version: tree.Any}},
			Else: []tree.Op{enter},
		})
		switch {
		case err == nil:
			made := done.Outcome.Ops[0]
			return l.placed(ctx, made.Path, made.Stat.Created).monitored(), nil
		case !errors.Is(err, &tree.RefusedError{Code: tree.NoParent}):
			return nil, err
		}
		if err := ensure(ctx, l.in, l.path); err != nil {
			return nil, err
		}
	}
}

// complete waits until all have entered. The error is [ErrFull] if they had before p came.
func (p *place) complete(ctx context.Context) (round tree.Stamp, err error) {
	waiting, stop := p.while(ctx)
	defer stop()
	for {
		changed := client.NewOneShot()
		above, exists, err := p.in.Exists(waiting, p.path, client.WithWatch(changed))
		switch {
		case err == nil && !exists:
			err = ErrBroken
		case err == nil && !full(above):
			_, err = changed.Wait(waiting)
			if err == nil {
				changed.Stop()
				continue
			}
		case err == nil && above.Modified < p.token:
			err = ErrFull
		case err == nil:
			err = p.verify(waiting) // its entry may have been removed before all had entered
		}
		changed.Stop()
		return above.Created, p.reason(waiting, err)
	}
}

// Leave waits until all have left. When ctx ends first, the error wraps its cause, and the caller has left.
func (i *Inside) Leave(ctx context.Context) error {
	err := i.place.left(ctx, ErrReleased)
	if err == nil || errors.Is(err, ErrBroken) {
		err = i.empty(ctx)
	}
	return failed("leave", tree.Parent(i.place.path), err)
}

// empty waits until the barrier is empty, and removes the entry that counts the members.
func (i *Inside) empty(ctx context.Context) error {
	p := i.place
	for {
		page, err := p.in.ListPage(ctx, p.path, client.Listing{Backward: true, PageSize: 1})
		switch {
		case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}), err == nil && page.Stat.Created != i.round:
			return nil // another member has removed it
		case err != nil:
			return err
		case len(page.Children) == 0:
			if err = p.reset(ctx, i.round); !errors.Is(err, &tree.RefusedError{Code: tree.NotEmpty}) {
				return err
			}
			continue
		}
		deleted := client.NewOneShot()
		_, exists, err := p.in.Exists(ctx, tree.Join(p.path, page.Children[0].Name), client.WithWatch(deleted))
		if err == nil && exists {
			_, err = deleted.Wait(ctx)
		}
		deleted.Stop()
		if err != nil {
			return err
		}
	}
}

// reset removes the entry above a round's members, unless another round has started.
func (l line) reset(ctx context.Context, round tree.Stamp) error {
	_, err := l.in.Transact(ctx, tree.Transaction{
		If:   []tree.Condition{{Path: l.path, Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(round)}},
		Then: []tree.Op{tree.Delete{Path: l.path, Version: tree.Any}},
	})
	return err
}

// Done returns a channel that is closed when the caller is no longer inside: it has left, its entry was removed, or the
// session has ended.
func (i *Inside) Done() <-chan struct{} { return i.place.alive.Done() }

// Err returns nil while the caller is inside, then the reason of the end: as [Grant.Err].
func (i *Inside) Err() error { return context.Cause(i.place.alive) }
