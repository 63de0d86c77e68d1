package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/session"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestDoubleBarrier: all enter together and leave together, twice; a member that dies has left.
func TestDoubleBarrier(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		const members = 4
		var barriers []*recipes.DoubleBarrier
		for i := range members {
			cl := c.Client(fmt.Sprint("app", i))
			defer cl.Close()
			s := c.Session(cl, 5*time.Second)
			_, err := recipes.NewDoubleBarrier(s, "/barriers/a", recipes.MaxMembers+1).Enter(ctx)
			if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "number" {
				c.T.Errorf("%d members: %v", recipes.MaxMembers+1, err)
			}
			barriers = append(barriers, recipes.NewDoubleBarrier(s, "/barriers/a", members))
		}
		for round := range 3 {
			began := time.Now()
			var all sync.WaitGroup
			for i, b := range barriers {
				all.Go(func() {
					time.Sleep(time.Duration(i) * time.Second)
					in, err := b.Enter(ctx)
					if err != nil {
						c.T.Errorf("round %d, member %d: %v", round, i, err)
						return
					}
					if waited := time.Since(began); waited < (members-1)*time.Second {
						c.T.Errorf("round %d, member %d entered after %v", round, i, waited)
					}
					time.Sleep(time.Duration(members-i) * time.Second)
					if round == 2 && i == 0 {
						c.Kill("app0")
						return
					}
					if err := in.Leave(ctx); err != nil {
						c.T.Errorf("round %d, member %d leaves: %v", round, i, err)
					}
					if waited := time.Since(began); waited < (2*members-1)*time.Second {
						c.T.Errorf("round %d, member %d left after %v", round, i, waited)
					}
				})
			}
			all.Wait()
		}
	})
}

// TestOnce: of many callers with one key one works, and all get its result. If it fails, another caller works.
func TestOnce(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		var mu sync.Mutex
		worked, firsts := 0, 0
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				result, first, err := recipes.NewOnce(s, "/jobs").Do(ctx, "a",
					func(context.Context, tree.Stamp) ([]byte, error) {
						time.Sleep(time.Second)
						mu.Lock()
						defer mu.Unlock()
						if worked++; worked == 1 {
							return nil, errors.New("no luck")
						}
						return []byte("result"), nil
					})
				mu.Lock()
				defer mu.Unlock()
				if first {
					firsts++
				}
				if err == nil && string(result) != "result" || err != nil && err.Error() != "do once /jobs/a: no luck" {
					c.T.Errorf("caller %d: %q, %v", i, result, err)
				}
			})
		}
		all.Wait()
		if worked != 2 || firsts != 1 {
			c.T.Errorf("worked %d times, %d were first", worked, firsts)
		}
		o := recipes.NewOnce(s, "/jobs")
		if result, done, err := o.Done(ctx, "a"); err != nil || !done || string(result) != "result" {
			c.T.Errorf("done: %q, %v, %v", result, done, err)
		}
		if err := o.Forget(ctx, "a"); err != nil {
			c.T.Error(err)
		}
		if _, done, err := o.Done(ctx, "a"); err != nil || done {
			c.T.Errorf("after it was forgotten: %v, %v", done, err)
		}
	})
}

// TestKeysOfOnce: no key is a part of another key, and a key whose job failed or was forgotten leaves nothing for good.
func TestKeysOfOnce(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		o := recipes.NewOnce(s, "/jobs")
		for _, key := range []string{"", "a/done", "a/lock", "/a", "a/", "..", "."} {
			_, _, err := o.Do(ctx, key, func(context.Context, tree.Stamp) ([]byte, error) { return nil, nil })
			if !errors.Is(err, session.ErrInvalid) {
				c.T.Errorf("key %q: %v", key, err)
			}
		}
		for key, failed := range map[string]error{"good": nil, "bad": errors.New("no luck")} {
			_, _, err := o.Do(ctx, key, func(context.Context, tree.Stamp) ([]byte, error) { return nil, failed })
			if !errors.Is(err, failed) {
				c.T.Errorf("key %s: %v", key, err)
			}
		}
		if _, done, err := o.Done(ctx, "good"); err != nil || !done {
			c.T.Errorf("a job without a result: %v, %v", done, err)
		}
		if err := o.Forget(ctx, "good"); err != nil {
			c.T.Error(err)
		}
		time.Sleep(5 * time.Minute) // containers are removed a minute after their last child
		wantFree(c, s, "/jobs")
	})
}

// TestTakeFromALongQueue: what a worker reads does not grow with the items that wait.
func TestTakeFromALongQueue(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		q := recipes.NewQueue(s, "/queue")
		cost := func() int {
			before := c.Sum("holdfast_client_tree_reads_total")
			claim, err := q.Take(ctx)
			if err != nil {
				c.T.Fatal(err)
			}
			if err = claim.Finish(ctx); err != nil {
				c.T.Fatal(err)
			}
			time.Sleep(time.Second)
			return c.Sum("holdfast_client_tree_reads_total") - before
		}
		var all sync.WaitGroup
		put := func(items int) {
			for i := range items {
				all.Go(func() {
					if err := q.Put(ctx, fmt.Append(nil, i)); err != nil {
						c.T.Error(err)
					}
				})
			}
			all.Wait()
		}
		put(2)
		_ = cost() // the first one finds no entries for claims
		short := cost()
		put(1000)
		// Reading every item costs ten pages more. A claim that is disturbed by another event costs a read or two.
		if long := cost(); long > 2*short {
			c.T.Errorf("of 1000 items one cost %d reads, and the only one %d", long, short)
		}
	})
}

// TestQueue: items go out in order, each to one worker. Items of a worker that dies, or returns them, come back.
func TestQueue(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cl, dying := c.Client("app"), c.Client("dying")
		defer cl.Close()
		defer dying.Close()
		s := c.Session(cl, 10*time.Second)
		q := recipes.NewQueue(s, "/queue")
		const items = 20
		for i := range items {
			if err := q.Put(ctx, fmt.Append(nil, i)); err != nil {
				c.T.Fatal(err)
			}
		}
		first, err := recipes.NewQueue(c.Session(dying, 5*time.Second), "/queue").Take(ctx)
		if err != nil || string(first.Data) != "0" {
			c.T.Fatalf("the first item: %v, %v", first, err)
		}
		second, err := q.Take(ctx)
		if err != nil || string(second.Data) != "1" {
			c.T.Fatalf("the second item: %v, %v", second, err)
		}
		c.Kill("dying")
		if err := second.Return(ctx); err != nil {
			c.T.Error(err)
		}
		var mu sync.Mutex
		var done []string
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					claim, err := q.Take(ctx)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							c.T.Error(err)
						}
						return
					}
					time.Sleep(100 * time.Millisecond)
					if err := claim.Finish(ctx); err != nil {
						c.T.Error(err)
					}
					mu.Lock()
					done = append(done, string(claim.Data))
					mu.Unlock()
				}
			})
		}
		time.Sleep(20 * time.Second)
		if n, err := q.Len(ctx); err != nil || n != 0 {
			c.T.Errorf("%d items are left, %v", n, err)
		}
		cancel()
		all.Wait()
		slices.Sort(done)
		if len(slices.Compact(done)) != items {
			c.T.Errorf("done: %v", done)
		}
	})
}

// TestAClaimThatIsAnothers: a worker whose claim was removed notices, also if another worker has the item by then: the
// entries of both claims have the same name.
func TestAClaimThatIsAnothers(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		q := recipes.NewQueue(c.Session(cl, time.Minute), "/queue")
		if err := q.Put(ctx, []byte("a")); err != nil {
			c.T.Fatal(err)
		}
		claim, err := q.Take(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		other := c.Session(cl, time.Minute).Tree()
		claims, err := other.ListPage(ctx, "/queue/claims", client.Listing{})
		if err != nil || len(claims.Children) != 1 {
			c.T.Fatalf("claims: %+v, %v", claims, err)
		}
		path := tree.Join("/queue/claims", claims.Children[0].Name)
		if _, err := other.Transact(ctx, tree.Transaction{Then: []tree.Op{
			tree.Delete{Path: path, Version: tree.Any}, tree.Create{Path: path, Kind: tree.Ephemeral},
		}}); err != nil {
			c.T.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := claim.Err(); !errors.Is(err, recipes.ErrBroken) {
			c.T.Errorf("the claim of an item that is another's: %v, want %v", err, recipes.ErrBroken)
		}
	})
}
