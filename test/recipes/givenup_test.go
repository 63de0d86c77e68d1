package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestWhoGivesUpHasNotEntered: a double barrier counts neither callers who gave up nor callers who died before all
// were there, and is not passed because of them.
func TestWhoGivesUpHasNotEntered(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		const members = 3
		dying := c.Client("dying")
		defer dying.Close()
		dead := recipes.NewDoubleBarrier(c.Session(dying, 5*time.Second), "/barriers/a", members)
		go func() { _, _ = dead.Enter(ctx) }()
		time.Sleep(time.Second)
		c.Kill("dying")
		time.Sleep(10 * time.Second)
		cl := c.Client("app")
		defer cl.Close()
		b := recipes.NewDoubleBarrier(c.Session(cl, 10*time.Second), "/barriers/a", members)
		for range members {
			patience, cancel := context.WithTimeout(ctx, time.Second)
			if _, err := b.Enter(patience); !errors.Is(err, context.DeadlineExceeded) {
				c.T.Errorf("entering alone: %v", err)
			}
			cancel()
		}
		time.Sleep(time.Second)
		began := time.Now()
		var all sync.WaitGroup
		for i := range members {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				in, err := b.Enter(ctx)
				if err != nil {
					c.T.Errorf("member %d: %v", i, err)
					return
				}
				if waited := time.Since(began); waited < (members-1)*time.Second {
					c.T.Errorf("member %d entered after %v, before all were there", i, waited)
				}
				if err := in.Leave(ctx); err != nil {
					c.T.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// TestRoundThatDied: when all members inside have died, others may enter.
func TestRoundThatDied(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		const members = 2
		enter := func(cl *client.Client) error {
			b := recipes.NewDoubleBarrier(c.Session(cl, 5*time.Second), "/barriers/a", members)
			var all sync.WaitGroup
			var failed [members]error
			for i := range members {
				all.Go(func() { _, failed[i] = b.Enter(context.Background()) })
			}
			all.Wait()
			return errors.Join(failed[:]...)
		}
		dying, app := c.Client("dying"), c.Client("app")
		defer dying.Close()
		defer app.Close()
		if err := enter(dying); err != nil {
			c.T.Fatal(err)
		}
		late := recipes.NewDoubleBarrier(c.Session(app, 5*time.Second), "/barriers/a", members)
		if _, err := late.Enter(context.Background()); !errors.Is(err, recipes.ErrFull) {
			c.T.Errorf("one more: %v", err)
		}
		c.Kill("dying")
		time.Sleep(10 * time.Second)
		if err := enter(app); err != nil {
			c.T.Error("after all have died: ", err)
		}
	})
}

// TestFinishThatIsGivenUp: an item whose worker gives up finishing it is gone or comes back.
func TestFinishThatIsGivenUp(t *testing.T) {
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
		heal := cutOff(c, "app")
		time.Sleep(20 * time.Second) // the client has left its node, and no longer sends to it
		patience, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if failed := claim.Finish(patience); !errors.Is(failed, context.DeadlineExceeded) {
			c.T.Errorf("finish without a node: %v", failed)
		}
		heal()
		wantFree(c, c.Session(cl, time.Minute), "/queue/claims")
		again, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		left, err := q.Len(ctx, client.Linearizable())
		if err != nil || left == 0 {
			c.T.Errorf("%d items are left, %v: nothing was sent", left, err)
		}
		if claim, err = q.Take(again); err != nil || string(claim.Data) != "a" {
			c.T.Errorf("the item that was not finished: %v, %v", claim, err)
		}
	})
}

// cutOff cuts a host off from all nodes.
func cutOff(c *whole.Cluster, host string) (heal func()) {
	for _, n := range c.Names {
		c.Cut(host, n)
		c.Cut(n, host)
	}
	return func() {
		for _, n := range c.Names {
			c.Heal(host, n)
			c.Heal(n, host)
		}
	}
}

// TestAdditionsOfALostLock: an addition with an error has not counted, also when the lock of overtaken additions is
// broken around it.
func TestAdditionsOfALostLock(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		var counted, refused, broken atomic.Int64
		var all sync.WaitGroup
		for i := range 5 {
			cl := c.Client(fmt.Sprint("app", i))
			defer cl.Close()
			n := recipes.NewCounter(c.Session(cl, 30*time.Second), "/count")
			all.Go(func() {
				for range 60 {
					switch _, err := n.Add(ctx, 1); {
					case err == nil:
						counted.Add(1)
					case errors.Is(err, recipes.ErrBroken):
						refused.Add(1)
					default:
						c.T.Error(err)
					}
				}
			})
		}
		vandal := c.Client("vandal")
		defer vandal.Close()
		s := c.Session(vandal, 30*time.Second)
		working, done := context.WithCancel(ctx)
		var breaking sync.WaitGroup
		breaking.Go(func() {
			for working.Err() == nil {
				first, err := s.Tree().ListPage(ctx, "/count/adding", client.Listing{PageSize: 1})
				if err == nil && len(first.Children) > 0 { // it may be gone
					if _, err = s.Tree().Delete(ctx, tree.Join("/count/adding", first.Children[0].Name)); err == nil {
						broken.Add(1)
					}
				}
				time.Sleep(3 * time.Millisecond)
			}
		})
		all.Wait()
		done()
		breaking.Wait()
		n, err := recipes.NewCounter(s, "/count").Get(ctx, client.Linearizable())
		if err != nil || n != counted.Load() {
			c.T.Errorf("%d additions succeeded and %d failed, and the number is %d: %v", counted.Load(), refused.Load(), n, err)
		}
		if broken.Load() == 0 {
			c.T.Error("no lock was broken: the test proves nothing")
		}
	})
}

// TestTakeEndsAtItsClaim: a call whose context ends at the moment of its claim returns an error, and leaves no claim.
func TestTakeEndsAtItsClaim(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, time.Minute)
		q := recipes.NewQueue(s, "/queue")
		if err := q.Put(ctx, []byte("a")); err != nil {
			c.T.Fatal(err)
		}
		claimed, late := 0, 0
		for patience := 12 * time.Millisecond; patience < 24*time.Millisecond; patience += 40 * time.Microsecond {
			asking, cancel := context.WithTimeout(ctx, patience)
			claim, err := q.Take(asking)
			cancel()
			switch {
			case err == nil:
				claimed++
				if err = claim.Return(ctx); err != nil {
					c.T.Fatal(err)
				}
			case errors.Is(err, context.DeadlineExceeded):
				late++
				wantFree(c, s, "/queue/claims")
			default:
				c.T.Fatalf("with a patience of %v: %v", patience, err)
			}
		}
		if claimed == 0 || late == 0 {
			c.T.Errorf("%d calls came in time, and %d too late: the test proves nothing", claimed, late)
		}
	})
}

// TestWatchOfAReadThatIsGivenUp: nodes keep no watch that was set by a read whose caller had given up. Watchers of
// short holds are such callers, and the entries of locks are gone for good: their watches would never fire.
func TestWatchOfAReadThatIsGivenUp(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		cl := c.Client("app")
		defer cl.Close()
		in := c.Session(cl, time.Minute).Tree()
		const step, longest = 200 * time.Microsecond, 20 * time.Millisecond
		answered := 0
		for patience := step; patience < longest; patience += step {
			asking, cancel := context.WithTimeout(context.Background(), patience)
			w := client.NewOneShot()
			_, _, err := in.Exists(asking, "/none"+patience.String(), client.WithWatch(w))
			cancel()
			w.Stop()
			if err == nil {
				answered++
			}
		}
		time.Sleep(time.Second)
		if left := c.Sum("holdfast_tree_watches"); left != 0 {
			c.T.Errorf("nodes keep %d watches without a client", left)
		}
		if reads := c.Sum("holdfast_client_tree_reads_total"); answered == 0 || reads <= answered {
			c.T.Errorf("nodes got %d reads, and callers waited for %d answers: the test proves nothing", reads, answered)
		}
	})
}
