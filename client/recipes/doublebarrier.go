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

// DoubleBarrier lets a number of sessions begin something together and end it together. Enter waits until all have
// entered, Leave until all have left. One that gives up or dies while it enters has not entered, and one that dies
// inside has left. When all have left, the barrier may be used again. Safe for concurrent use.
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

// NewDoubleBarrier returns the barrier at a path, for a number of callers: 1 to [MaxMembers]. Everybody must use the
// same number; the first one sets it. It asks the cluster for nothing.
func NewDoubleBarrier(s *client.Session, path string, number int, o ...Option) *DoubleBarrier {
	return &DoubleBarrier{newLine(s, path, o), number}
}

// Inside is what a caller holds between Enter and Leave.
type Inside struct {
	place *place
	// round is the stamp of the entry above those of all who have entered together.
	round tree.Stamp
}

// Enter waits until all have entered. When ctx ends first, the error wraps its cause, and the caller has not entered;
// others may already have gone in with it.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Inside, error) {
	asked := b.line.begins("double barrier")
	i, err := b.enter(ctx)
	if asked.ended(err); err == nil {
		asked.heldUntilOver(i.place)
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

// clear removes what a round has left whose members have all died.
func (l line) clear(ctx context.Context) error {
	above, exists, err := l.in.Exists(ctx, l.path)
	if err == nil && exists && full(above) && above.Children == 0 {
		err = l.reset(ctx, above.Created)
	}
	if errors.Is(err, &tree.RefusedError{Code: tree.NotEmpty}) {
		return nil // somebody has come
	}
	return err
}

// full reports whether all have entered, from the state of the entry above them.
func full(above tree.Stat) bool { return above.Version > 0 }

// member makes the entry of a member. The entry that completes the number also changes the data of the entry above, in
// the same transaction: that all were inside at one moment stays known, however soon one of them leaves.
func (l line) member(ctx context.Context, number int) (*place, error) {
	enter := tree.Create{
		Path: tree.Join(l.path, insider), Sequential: true, Kind: tree.Ephemeral, Linger: l.o.linger,
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
			return l.placed(ctx, made.Path, made.Stat.Created).guarded(), nil
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

// empty waits until nobody is inside, and removes the entry that counts those who have entered.
func (i *Inside) empty(ctx context.Context) error {
	p := i.place
	for {
		page, err := p.in.ListPage(ctx, p.path, client.Listing{Backward: true, PageSize: 1})
		switch {
		case errors.Is(err, &tree.RefusedError{Code: tree.NoNode}), err == nil && page.Stat.Created != i.round:
			return nil // another one has removed it
		case err != nil:
			return err
		case len(page.Children) == 0:
			if err = p.reset(ctx, i.round); !errors.Is(err, &tree.RefusedError{Code: tree.NotEmpty}) {
				return err
			}
			continue
		}
		gone := client.NewOneShot()
		_, exists, err := p.in.Exists(ctx, tree.Join(p.path, page.Children[0].Name), client.WithWatch(gone))
		if err == nil && exists {
			_, err = gone.Wait(ctx)
		}
		gone.Stop()
		if err != nil {
			return err
		}
	}
}

// reset removes the entry above those who were inside, unless another round has begun.
func (l line) reset(ctx context.Context, round tree.Stamp) error {
	_, err := l.in.Transact(ctx, tree.Transaction{
		If:   []tree.Condition{{Path: l.path, Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(round)}},
		Then: []tree.Op{tree.Delete{Path: l.path, Version: tree.Any}},
	})
	return err
}

// Done returns a channel that is closed when the caller is no longer inside: it has left, somebody has removed its
// entry, or the session has ended.
func (i *Inside) Done() <-chan struct{} { return i.place.alive.Done() }

// Err returns nil while the caller is inside, then why it is not: as [Grant.Err].
func (i *Inside) Err() error { return context.Cause(i.place.alive) }
