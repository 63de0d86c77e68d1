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
// entered, Leave until all have left. One that dies has left. After that the barrier may be used again. Safe for
// concurrent use.
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
	i, err := b.enter(ctx)
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
	p, err := inside.enter(ctx, insider, []byte(b.line.o.holder))
	if err != nil {
		return nil, err
	}
	round, err := b.complete(ctx, p)
	if err != nil {
		p.leave(err)
		return nil, err
	}
	return &Inside{place: p, round: round}, nil
}

// complete waits until the last one has entered. All watch for the one entry that makes the number full. Those who come
// late, or see it come and go, find the number in what the entry above counts.
func (b *DoubleBarrier) complete(ctx context.Context, p *place) (round tree.Stamp, err error) {
	waiting, stop := p.while(ctx)
	defer stop()
	last := insider + tree.SequenceSuffix(uint64(b.number-1)) //nolint:gosec // not negative
	if p.name > last {
		return 0, ErrFull
	}
	for {
		came := client.NewOneShot()
		_, exists, err := p.in.Exists(waiting, tree.Join(p.path, last), client.WithWatch(came))
		var above tree.Stat
		if err == nil {
			above, _, err = p.in.Exists(waiting, p.path)
		}
		if err == nil && !exists && ever(above) < int64(b.number) {
			_, err = came.Wait(waiting)
			came.Stop()
			if err == nil {
				continue
			}
		}
		came.Stop()
		return above.Created, p.reason(waiting, err)
	}
}

// ever returns how many children an entry has had (D4).
func ever(s tree.Stat) int64 { return (s.ChildrenVersion + int64(s.Children)) / 2 }

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
			if err = i.reset(ctx); !errors.Is(err, &tree.RefusedError{Code: tree.NotEmpty}) {
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
func (i *Inside) reset(ctx context.Context) error {
	_, err := i.place.in.Transact(ctx, tree.Transaction{
		If: []tree.Condition{{
			Path: i.place.path, Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(i.round),
		}},
		Then: []tree.Op{tree.Delete{Path: i.place.path, Version: tree.Any}},
	})
	return err
}

// Done returns a channel that is closed when the caller is no longer inside: it has left, somebody has removed its
// entry, or the session has ended.
func (i *Inside) Done() <-chan struct{} { return i.place.alive.Done() }

// Err returns nil while the caller is inside, then why it is not: as [Grant.Err].
func (i *Inside) Err() error { return context.Cause(i.place.alive) }
