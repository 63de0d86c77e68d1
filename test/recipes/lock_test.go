package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/session"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestMutexIsFair: callers hold the lock one at a time, in the order of their arrival, each with a higher token.
func TestMutexIsFair(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		const callers = 8
		var mu sync.Mutex
		var order []int
		var tokens []tree.Stamp
		holding := 0
		var all sync.WaitGroup
		for i := range callers {
			cl := c.Client(fmt.Sprintf("app%d", i))
			defer cl.Close()
			m := recipes.NewLock(c.Session(cl, 10*time.Second), "/locks/a")
			all.Go(func() {
				err := m.Do(context.Background(), func(ctx context.Context, token tree.Stamp) error {
					mu.Lock()
					holding++
					order, tokens = append(order, i), append(tokens, token)
					if holding != 1 {
						c.T.Errorf("%d hold the lock", holding)
					}
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					holding--
					return ctx.Err()
				})
				if err != nil {
					c.T.Errorf("caller %d: %v", i, err)
				}
			})
			time.Sleep(50 * time.Millisecond) // callers come one after the other
		}
		all.Wait()
		if !slices.IsSorted(order) || len(order) != callers || !slices.IsSorted(tokens) {
			c.T.Errorf("order %v, tokens %v", order, tokens)
		}
	})
}

// TestTryLock: TryLock fails for a held lock, and acquires a free lock.
func TestTryLock(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		m := recipes.NewLock(s, "/locks/a")
		first, err := m.TryLock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		if _, err = m.TryLock(ctx); !errors.Is(err, recipes.ErrBusy) {
			c.T.Errorf("a second try: %v", err)
		}
		if holds, failed := cl.Tree().CheckFence(ctx, first.Path(), first.Token()); failed != nil || !holds {
			c.T.Errorf("fence of the holder: %v, %v", holds, failed)
		}
		if err = first.Unlock(ctx); err != nil {
			c.T.Error(err)
		}
		if err = first.Unlock(ctx); !errors.Is(err, recipes.ErrReleased) {
			c.T.Errorf("a second unlock: %v", err)
		}
		if cause := context.Cause(first.Context()); !errors.Is(cause, recipes.ErrReleased) || !first.SafeUntil().IsZero() {
			c.T.Errorf("the context of a hold that is over: %v, safe until %v", cause, first.SafeUntil())
		}
		second, err := m.TryLock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		if second.Token() <= first.Token() {
			c.T.Errorf("token %v after %v", second.Token(), first.Token())
		}
	})
}

// TestLockThatIsGivenUp: a caller whose context ends leaves no place behind, not even while no node answers.
func TestLockThatIsGivenUp(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, time.Minute)
		m := recipes.NewLock(s, "/locks/a")
		held, err := m.Lock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		patience, cancel := context.WithTimeout(ctx, time.Second)
		if _, err := m.Lock(patience); !errors.Is(err, context.DeadlineExceeded) {
			c.T.Errorf("waiting in vain: %v", err)
		}
		cancel()
		heal := c.Apart()
		patience, cancel = context.WithTimeout(ctx, 3*time.Second)
		if _, err := m.Lock(patience); !errors.Is(err, context.DeadlineExceeded) {
			c.T.Errorf("waiting for a cluster without a quorum: %v", err)
		}
		cancel()
		heal()
		if err := held.Unlock(ctx); err != nil {
			c.T.Error(err)
		}
		wantFree(c, s, "/locks/a")
	})
}

// wantFree waits until the line at path is empty.
func wantFree(c *whole.Cluster, s *client.Session, path string) {
	c.T.Helper()
	for range 100 {
		stat, _, err := s.Tree(client.Linearizable()).Exists(context.Background(), path)
		if err != nil {
			c.T.Fatal(err)
		}
		if stat.Children == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.T.Errorf("entries are left at %s", path)
}

// TestHolderThatIsCutOff: the context of a holder that is cut off ends before another holds the lock. When the holder
// is back, the hold is lost.
func TestHolderThatIsCutOff(t *testing.T) {
	for name, delay := range map[string]time.Duration{"no lock-delay": 0, "lock-delay": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			whole.Run(t, func(c *whole.Cluster) {
				ctx := context.Background()
				one, two := c.Client("one"), c.Client("two")
				defer one.Close()
				defer two.Close()
				s := c.Session(one, 10*time.Second)
				held, err := recipes.NewLock(s, "/locks/a", recipes.WithLockDelay(delay)).Lock(ctx)
				if err != nil {
					c.T.Fatal(err)
				}
				working := held.Context()
				next := recipes.NewLock(c.Session(two, 10*time.Second), "/locks/a")
				for _, n := range c.Names {
					c.Cut("one", n)
					c.Cut(n, "one")
				}
				cut := time.Now()
				got, err := next.Lock(ctx)
				if err != nil {
					c.T.Fatal(err)
				}
				if working.Err() == nil || !held.SafeUntil().IsZero() {
					c.T.Error("two work at a time")
				}
				if waited := time.Since(cut); waited < delay || waited > delay+15*time.Second {
					c.T.Errorf("the next one held the lock after %v", waited)
				}
				if got.Token() <= held.Token() {
					c.T.Errorf("token %v after %v", got.Token(), held.Token())
				}
				for _, n := range c.Names {
					c.Heal("one", n)
					c.Heal(n, "one")
				}
				<-held.Done()
				if err := held.Err(); !errors.Is(err, session.ErrExpired) {
					c.T.Errorf("the former hold ended with %v", err)
				}
			})
		})
	}
}

// TestHoldSurvivesALapse: when the promise runs out and comes back, the hold is not over and has a new context.
func TestHoldSurvivesALapse(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		m := recipes.NewLock(s, "/locks/a")
		held, err := m.Lock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		former := held.Context()
		heal := c.Apart()
		<-former.Done()
		if !errors.Is(context.Cause(former), client.ErrLapsed) || held.Err() != nil {
			c.T.Errorf("without a quorum the context ended with %v, the hold with %v", context.Cause(former), held.Err())
		}
		heal()
		if _, err := s.AwaitPromise(ctx); err != nil {
			c.T.Fatal(err)
		}
		if err := held.Context().Err(); err != nil || held.SafeUntil().IsZero() {
			c.T.Errorf("a new promise, and the context has ended with %v", err)
		}
		if err := held.Unlock(ctx); err != nil {
			c.T.Error(err)
		}
	})
}

// TestLockThatIsBroken: an operator removes the entry of a holder, and then that of a waiter.
func TestLockThatIsBroken(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		m := recipes.NewLock(s, "/locks/a")
		held, err := m.Lock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		working, waiting := held.Context(), make(chan error)
		go func() {
			_, err := m.Lock(ctx)
			waiting <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		if _, err := s.Tree().DeleteTree(ctx, "/locks/a"); err != nil {
			c.T.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, recipes.ErrBroken) {
			c.T.Errorf("the one who waited: %v", err)
		}
		<-held.Done()
		synctest.Wait()
		if !errors.Is(context.Cause(working), recipes.ErrBroken) || held.Context().Err() == nil {
			c.T.Errorf("the context of the holder: %v", context.Cause(working))
		}
		if err := held.Unlock(ctx); !errors.Is(err, recipes.ErrBroken) {
			c.T.Errorf("unlock: %v", err)
		}
		if _, err := recipes.NewLock(s, "/").Lock(ctx); !errors.Is(err, session.ErrInvalid) {
			c.T.Errorf("a lock at the root: %v", err)
		}
	})
}

// TestWaiterThatIsBroken: an operator removes the entry of the second waiter. When the holder has gone, the second
// does not believe that it is first: the third holds the lock.
func TestWaiterThatIsBroken(t *testing.T) {
	for _, r := range queueing() {
		t.Run(r.name, func(t *testing.T) {
			whole.Run(t, func(c *whole.Cluster) {
				ctx := context.Background()
				cl := c.Client("app")
				defer cl.Close()
				type turn struct {
					who     int
					release func(context.Context) error
					err     error
				}
				turns := make(chan turn, 3)
				for i := range 3 {
					s := c.Session(cl, 30*time.Second)
					go func() {
						release, err := r.acquire(ctx, s)
						turns <- turn{i, release, err}
					}()
					time.Sleep(time.Second)
				}
				holder := <-turns
				in := c.Session(cl, 30*time.Second).Tree()
				second := waiting(c, in, r.line)
				if _, err := in.Delete(ctx, second); err != nil {
					c.T.Fatal(err)
				}
				time.Sleep(time.Second)
				if len(turns) > 0 && r.name != "semaphore" { // whose first waiter notices at once
					c.T.Errorf("%d calls have ended before the holder has", len(turns))
				}
				if err := holder.release(ctx); err != nil {
					c.T.Fatal(err)
				}
				for range 2 {
					switch got := <-turns; {
					case got.who == 1 && !errors.Is(got.err, recipes.ErrBroken):
						c.T.Errorf("the second holds the lock, or has the error %v", got.err)
					case got.who == 2 && got.err != nil:
						c.T.Errorf("the third: %v", got.err)
					}
				}
			})
		})
	}
}

// waiting returns the first waiter's entry in a queue, behind the holder's entry.
func waiting(c *whole.Cluster, in *client.Tree, line string) string {
	c.T.Helper()
	page, err := in.ListPage(context.Background(), line, client.Listing{}, client.Linearizable())
	if err != nil || len(page.Children) < 2 {
		c.T.Fatalf("queued are %v: %v", page.Children, err)
	}
	return tree.Join(line, page.Children[len(page.Children)-2].Name)
}
