package recipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"holdfast/client/recipes"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestThousandsGiveUpAtOnce: more callers of one session give up in one moment than writes of a session may wait, and
// none of them leaves a place behind that nobody would come to.
func TestThousandsGiveUpAtOnce(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		const times, each = 6, 1000
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, time.Minute)
		m := recipes.NewMutex(s, "/locks/a")
		held, err := m.Lock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		patience, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		for range times { // so many come one after the other, and all go together
			for range each {
				all.Go(func() {
					if _, failed := m.Lock(patience); !errors.Is(failed, context.Canceled) {
						c.T.Errorf("waiting in vain: %v", failed)
					}
				})
			}
			time.Sleep(10 * time.Second)
		}
		cancel()
		all.Wait()
		if err = held.Unlock(ctx); err != nil {
			c.T.Error(err)
		}
		wantFree(c, s, "/locks/a")
	})
}

// TestDoOfACallerThatIsCutOff: Do ends soon after its context, also while nobody hears that the lock is given up. The
// lock is given up when somebody hears.
func TestDoOfACallerThatIsCutOff(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		const timeout = 10 * time.Second
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cl, other := c.Client("app"), c.Client("other")
		defer cl.Close()
		defer other.Close()
		s := c.Session(cl, timeout)
		var heal func()
		var stopped time.Time
		err := recipes.NewMutex(s, "/locks/a").Do(ctx, func(context.Context, tree.Stamp) error {
			heal = cutOff(c, "app")
			cancel()
			stopped = time.Now()
			return nil
		})
		if waited := time.Since(stopped); !errors.Is(err, context.Canceled) || waited > timeout {
			c.T.Errorf("cut off, after %v: %v", waited, err)
		}
		if !s.SafeUntil().IsZero() {
			c.T.Error("Do has not waited for an answer while there was a promise")
		}
		heal()
		wantFree(c, c.Session(other, timeout), "/locks/a")
	})
}
