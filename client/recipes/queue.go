package recipes

import (
	"context"
	"errors"

	"holdfast/client"
	"holdfast/tree"
)

// Queue hands out items in the order of their puts, each to one worker at a time. An item stays until a worker finishes
// it: an item whose worker dies, or returns it, is free again at its former place. Safe for concurrent use.
//
//	       Put              Take                   Finish
//	------------> WAITING ---------> CLAIMED by one -------> gone
//	                 ^                   |
//	                 | Return, broken,   |
//	                 | session ends      |
//	                 +-------------------+
//
// Workers without an item wait in a line, and only the first worker reads items: an item wakes one worker. The worker
// claims an item and leaves the line in one transaction. An item is finished in one transaction with the claim: of two
// workers that had the item one after the other, only the holder of the claim can finish it. For effects of
// work outside the tree, the worker sends the fencing token of the claim, and the resource checks the token; or the
// effects are harmless when repeated.
type Queue struct{ line line }

const (
	itemsName   = "items"
	claimsName  = "claims"
	workersName = "workers"
	item        = "item-"
	// itemsPage is how many items a worker reads at once.
	itemsPage = 100
)

// NewQueue returns the queue at a path without contacting the cluster.
func NewQueue(s *client.Session, path string, o ...Option) *Queue { return &Queue{newLine(s, path, o)} }

// Claim is an item that the caller works on. [Grant.Context] ends before another worker can get the item.
type Claim struct {
	*Grant

	// Data is the item's.
	Data []byte

	item    string
	created tree.Stamp
}

// Put puts an item at the end of the queue. It belongs to no session.
func (q *Queue) Put(ctx context.Context, data []byte) error {
	items, err := q.below(itemsName), check(q.line.path)
	for err == nil {
		o := client.CreateOptions{Sequential: true, ACL: q.line.o.acl}
		_, err = q.line.in.Create(ctx, tree.Join(items.path, item), data, o)
		if !errors.Is(err, &tree.RefusedError{Code: tree.NoParent}) {
			break
		}
		err = items.ensure(ctx)
	}
	return failed("put into", q.line.path, err)
}

// Len returns how many items there are, claimed ones included, as far as the contacted node knows.
func (q *Queue) Len(ctx context.Context, o ...client.ReadOption) (int, error) {
	err := check(q.line.path)
	if err != nil {
		return 0, failed("count", q.line.path, err)
	}
	stat, _, err := q.line.in.Exists(ctx, q.below(itemsName).path, o...)
	return stat.Children, failed("count", q.line.path, err)
}

// Take waits for an item and claims it. When ctx ends first, the error wraps its cause, and nothing is claimed.
func (q *Queue) Take(ctx context.Context) (*Claim, error) {
	try := q.line.begins("queue")
	c, err := q.take(ctx, try)
	try.ended(err)
	return c, failed("take from", q.line.path, err)
}

func (q *Queue) take(ctx context.Context, try attempt) (*Claim, error) {
	if err := check(q.line.path); err != nil {
		return nil, err
	}
	p, err := q.below(workersName).enter(ctx, contender, []byte(q.line.o.holder))
	if err != nil {
		return nil, err
	}
	c, err := q.first(ctx, p, try)
	if err != nil {
		p.leave(err)
	}
	return c, err
}

// first waits until p is the first of the takers, and then for an item.
func (q *Queue) first(ctx context.Context, p *place, try attempt) (*Claim, error) {
	if err := p.turn(ctx, writing().ahead); err != nil {
		return nil, err
	}
	waiting, stop := p.while(ctx)
	defer stop()
	for {
		c, err := q.tryClaim(ctx, waiting, p)
		if err != nil {
			return nil, p.reason(waiting, err)
		}
		if c == nil {
			continue
		}
		if c.Grant, err = newGrant(ctx, c.place, try); err != nil {
			c.place.leave(err)
			return nil, err
		}
		return &c.Claim, nil
	}
}

// claimed is a claim that is not granted yet.
type claimed struct {
	Claim

	place *place
}

// tryClaim claims the first free item. If there is none, it waits for a possible change, and returns nil.
func (q *Queue) tryClaim(ctx, waiting context.Context, p *place) (*claimed, error) {
	busy := make(map[string]bool)
	_, claims, err := q.find(waiting, claimsName, func(child *tree.Child) bool {
		busy[child.Name] = true
		return false
	})
	if err != nil {
		return nil, err
	}
	defer claims.Stop()
	free, items, err := q.find(waiting, itemsName, func(item *tree.Child) bool { return !busy[item.Name] })
	if err != nil {
		return nil, err
	}
	defer items.Stop()
	if free != nil {
		return q.claim(ctx, waiting, p, free.Name)
	}
	return nil, either(waiting, items, claims)
}

// either waits until one of two watches fires.
func either(ctx context.Context, one, other *client.OneShot) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, 2)
	for _, w := range []*client.OneShot{one, other} {
		go func() {
			_, err := w.Wait(waiting)
			errs <- err
		}()
	}
	return <-errs
}

// find returns the first wanted child of a queue's entry, nil if there is none, and a watch of the children, which was
// set before the first read.
func (q *Queue) find(ctx context.Context, name string, wanted func(*tree.Child) bool,
) (*tree.Child, *client.OneShot, error) {
	for {
		changed := client.NewOneShot()
		found, err := q.search(ctx, q.below(name).path, wanted, changed)
		if err == nil {
			return found, changed, nil
		}
		changed.Stop()
		if !errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			return nil, nil, err
		}
		if err = q.below(name).ensure(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// search goes through the children of an entry, page by page, until one is wanted. The read of the first page sets the
// watch.
func (q *Queue) search(ctx context.Context, path string, wanted func(*tree.Child) bool, changed *client.OneShot,
) (*tree.Child, error) {
	l, with := client.Listing{PageSize: itemsPage}, []client.ReadOption{client.WithWatch(changed)}
	for {
		page, err := q.line.in.ListPage(ctx, path, l, with...)
		if err != nil {
			return nil, err
		}
		for i := range page.Children {
			if one := &page.Children[i]; wanted(one) {
				return one, nil
			}
		}
		if !page.More || len(page.Children) == 0 {
			return nil, nil //nolint:nilnil // none is wanted
		}
		l.After, with = page.Children[len(page.Children)-1].Name, nil
	}
}

// claim exchanges the place in the line for a claim of an item, in one transaction. It returns nil if another worker
// has claimed, changed or removed the item. claim reads the item first, because after the claim it may be removed at
// any moment.
func (q *Queue) claim(ctx, waiting context.Context, p *place, free string) (*claimed, error) {
	c := &claimed{Claim: Claim{item: tree.Join(q.below(itemsName).path, free)}}
	e, err := q.line.in.Get(waiting, c.item)
	if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
		return nil, nil //nolint:nilnil // nothing is claimed
	}
	if err != nil {
		return nil, err
	}
	c.Data, c.created = e.Data, e.Stat.Created
	c.place, err = handed(ctx, func(ctx context.Context) (*place, error) { return q.exchange(ctx, p, c, e.Stat.Version) })
	if errors.Is(err, errNotFree) {
		return nil, nil //nolint:nilnil // nothing is claimed
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// errNotFree: another worker was faster.
var errNotFree = errors.New("item is not free")

// exchange writes the claim of an item that still has a version.
func (q *Queue) exchange(ctx context.Context, p *place, c *claimed, version int64) (*place, error) {
	unchanged := tree.Condition{
		Path: c.item, Property: tree.DataVersion, Is: tree.Equal, Value: uint64(version), //nolint:gosec // not negative
	}
	claims := q.below(claimsName)
	path := tree.Join(claims.path, tree.Name(c.item))
	done, err := q.line.in.Transact(ctx, tree.Transaction{
		If: []tree.Condition{p.stillExists(), c.there(), unchanged},
		Then: []tree.Op{
			tree.Create{
				Path: path, Kind: tree.Ephemeral, Data: []byte(q.line.o.holder), LockDelay: q.line.o.lockDelay, ACL: q.line.o.acl,
			},
			tree.Delete{Path: p.entry(), Version: tree.Any},
		},
	})
	switch {
	case errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}),
		errors.Is(err, &tree.RefusedError{Code: tree.NoParent}):
		return nil, errNotFree
	case err != nil:
		return nil, err
	case done.Outcome.Else && p.alive.Err() != nil:
		return nil, context.Cause(p.alive)
	case done.Outcome.Else:
		return nil, errNotFree // or p was removed: its monitor reports that
	}
	p.end(ErrReleased)
	return claims.placed(ctx, path, done.Outcome.Ops[0].Stat.Created).monitored(), nil
}

// there is the condition that the item is still there.
func (c *Claim) there() tree.Condition {
	return tree.Condition{Path: c.item, Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(c.created)}
}

// Finish removes the item, and ends the claim. The error wraps [Grant.Err] if the claim was over before: the item is
// then another worker's. When ctx ends first, the error wraps its cause, the claim is over, and the item is gone or
// comes back.
func (c *Claim) Finish(ctx context.Context) error { return failed("finish", c.item, c.finish(ctx)) }

func (c *Claim) finish(ctx context.Context) error {
	p := c.place
	if err := c.Err(); err != nil {
		return err
	}
	done, err := p.in.Transact(ctx, tree.Transaction{
		If: []tree.Condition{p.stillExists(), c.there()},
		Then: []tree.Op{
			tree.Delete{Path: c.item, Version: tree.Any}, tree.Delete{Path: p.entry(), Version: tree.Any},
		},
	})
	switch {
	case err == nil && done.Outcome.Else:
		p.leave(ErrBroken)
		return ErrBroken
	case err == nil:
		p.end(ErrReleased)
	case ctx.Err() != nil:
		p.leave(ErrReleased) // the write may never be sent
	}
	return err
}

// Return returns the item to its place in the queue, as [Hold.Unlock] does a lock.
func (c *Claim) Return(ctx context.Context) error { return failed("return", c.item, c.release(ctx)) }

// below returns the line at one of the queue's entries.
func (q *Queue) below(name string) line {
	l := q.line
	l.base, l.path = l.path, tree.Join(l.path, name)
	return l
}
