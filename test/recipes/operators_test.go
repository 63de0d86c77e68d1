package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestTakeWhileAnOperatorRemoves: an item that is removed at the moment of its claim is one item less, and no failure
// of the worker.
func TestTakeWhileAnOperatorRemoves(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl, other := c.Client("app"), c.Client("operator")
		defer cl.Close()
		defer other.Close()
		q := recipes.NewQueue(c.Session(cl, time.Minute), "/queue")
		in := c.Session(other, time.Minute).Tree()
		claims := make(map[string]int)
		for after := time.Millisecond; after < 40*time.Millisecond; after += 200 * time.Microsecond {
			if err := q.Put(ctx, []byte("first")); err != nil {
				c.T.Fatal(err)
			}
			children, err := in.ListPage(ctx, "/queue/items", client.Listing{}, client.Linearizable())
			if err != nil || len(children.Children) != 1 {
				c.T.Fatalf("%+v, %v", children, err)
			}
			removed := make(chan error, 1)
			time.AfterFunc(after, func() {
				_, failed := in.Delete(ctx, tree.Join("/queue/items", children.Children[0].Name))
				removed <- failed
			})
			time.AfterFunc(time.Second, func() {
				if failed := q.Put(ctx, []byte("second")); failed != nil {
					c.T.Error(failed)
				}
			})
			claim, err := q.Take(ctx)
			if err != nil {
				c.T.Fatalf("with an item that goes after %v: %v", after, err)
			}
			claims[string(claim.Data)]++
			if err = <-removed; err != nil {
				c.T.Fatal(err)
			}
			if err = claim.Finish(ctx); err != nil && !errors.Is(err, recipes.ErrBroken) {
				c.T.Fatal(err)
			}
			if string(claim.Data) == "second" {
				continue
			}
			time.Sleep(2 * time.Second)
			if claim, err = q.Take(ctx); err == nil {
				err = claim.Finish(ctx)
			}
			if err != nil {
				c.T.Fatal(err)
			}
		}
		if claims["first"] == 0 || claims["second"] == 0 {
			c.T.Errorf("claims: %v: the test proves nothing", claims)
		}
	})
}

// TestWaiterOfALockCreatedAgain: an operator removes a lock and fills it again, so that another contender's entry has
// the name of a waiter's, and no contender is before it. The waiter does not believe that it holds the lock.
func TestWaiterOfALockCreatedAgain(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl, other := c.Client("app"), c.Client("other")
		defer cl.Close()
		defer other.Close()
		held, err := recipes.NewLock(c.Session(cl, time.Minute), "/locks/a").Lock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		type outcome struct {
			hold *recipes.Hold
			err  error
		}
		waits := make(chan outcome, 1)
		second := c.Session(cl, time.Minute)
		go func() {
			hold, failed := recipes.NewLock(second, "/locks/a").Lock(ctx)
			waits <- outcome{hold, failed}
		}()
		time.Sleep(time.Second)
		enter := tree.Create{Path: "/locks/a/lock-", Sequential: true, Kind: tree.Ephemeral}
		created, err := c.Session(other, time.Minute).Tree().Transact(ctx, tree.Transaction{Then: []tree.Op{
			tree.DeleteTree{Path: "/locks/a"},
			tree.Create{Path: "/locks/a", Kind: tree.Container},
			enter, enter,
			tree.Delete{Path: held.Path(), Version: tree.Any},
		}})
		if err != nil {
			c.T.Fatal(err)
		}
		if got, want := created.Outcome.Ops[3].Path, strings.TrimSuffix(held.Path(), "0")+"1"; got != want {
			c.T.Fatalf("the entry of the other contender is %s, want %s: the test proves nothing", got, want)
		}
		if got := <-waits; got.hold != nil || !errors.Is(got.err, recipes.ErrBroken) {
			c.T.Errorf("the waiter: a hold %v, error %v, want ErrBroken", got.hold != nil, got.err)
		}
	})
}

// TestGrantThatCannotBeWatched: a grant whose own entry its session may not read is over, with an error.
func TestGrantThatCannotBeWatched(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		hidden := tree.ACL{{Permissions: tree.All &^ tree.Read, Scheme: tree.World, ID: tree.Anyone}}
		held, err := recipes.NewLock(c.Session(cl, time.Minute), "/locks/a", recipes.WithACL(hidden)).Lock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		<-held.Done()
		refused := &tree.RefusedError{Code: tree.NoPermission}
		if err := held.Err(); !errors.Is(err, refused) || !strings.Contains(err.Error(), "watch the own entry "+held.Path()) {
			c.T.Errorf("the grant is over because of %v, want the refusal of its watch", err)
		}
	})
}

// TestObserverGetsEachLeaderOnce: a leader that proclaims an unchanged value is not reported again.
func TestObserverGetsEachLeaderOnce(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cl := c.Client("app")
		defer cl.Close()
		e := recipes.NewElection(c.Session(cl, time.Minute), "/leaders")
		leads, err := e.Campaign(ctx, []byte("a"))
		if err != nil {
			c.T.Fatal(err)
		}
		var received []string
		go func() {
			for l, err := range e.Observe(ctx) {
				if err == nil {
					received = append(received, fmt.Sprintf("%s %v", l.Value, l.Token == leads.Token()))
				}
			}
		}()
		for _, value := range []string{"a", "a", "b"} {
			time.Sleep(time.Second)
			if err := leads.Proclaim(ctx, []byte(value)); err != nil {
				c.T.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []string{"a true", "b true"}; !slices.Equal(received, want) {
			c.T.Errorf("received %q, want %q", received, want)
		}
	})
}
