package recipes

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestThousandsGiveUpAtOnce: more callers of one session give up at once than writes of a session may wait, and none of
// them leaves an abandoned entry behind.
func TestThousandsGiveUpAtOnce(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		const times, each = 6, 1000
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, time.Minute)
		m := recipes.NewLock(s, "/locks/a")
		held, err := m.Lock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		patience, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		for range times { // they arrive one after the other, and leave together
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

// TestDoOfACallerThatIsCutOff: Do ends soon after its context, also while no node can be reached. The lock is released
// as soon as a node can.
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
		err := recipes.NewLock(s, "/locks/a").Do(ctx, func(context.Context, tree.Stamp) error {
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

// TestWorkThatDoesNotReturn: a grant under which work panics, or ends its goroutine, is released, although its session
// lives on. The panic continues.
func TestWorkThatDoesNotReturn(t *testing.T) {
	type work func(context.Context, tree.Stamp) error
	for _, r := range []struct {
		name string
		do   func(ctx context.Context, s *client.Session, w work) error
	}{
		{"lock", func(ctx context.Context, s *client.Session, w work) error {
			return recipes.NewLock(s, "/lock").Do(ctx, w)
		}},
		{"reader", func(ctx context.Context, s *client.Session, w work) error {
			return recipes.NewLock(s, "/lock").DoRead(ctx, w)
		}},
		{"semaphore", func(ctx context.Context, s *client.Session, w work) error {
			return recipes.NewSemaphore(s, "/semaphore", 1).Do(ctx, w)
		}},
		{"once", func(ctx context.Context, s *client.Session, w work) error {
			job := func(ctx context.Context, token tree.Stamp) ([]byte, error) { return nil, w(ctx, token) }
			_, _, err := recipes.NewOnce(s, "/once").Do(ctx, "a", job)
			return err
		}},
	} {
		t.Run(r.name, func(t *testing.T) {
			whole.Run(t, func(c *whole.Cluster) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				cl := c.Client("app")
				defer cl.Close()
				s := c.Session(cl, time.Minute)
				for _, end := range []func(){func() { panic("a bug") }, runtime.Goexit} {
					var over func() error
					ended := make(chan any)
					go func() {
						defer func() { ended <- recover() }() // as servers do, which continue
						err := r.do(ctx, s, func(working context.Context, _ tree.Stamp) error {
							over = working.Err
							end()
							return nil
						})
						c.T.Errorf("Do returns %v", err)
					}()
					if got := <-ended; got != nil && got != "a bug" {
						c.T.Errorf("the panic has become %v", got)
					}
					if over == nil || over() == nil {
						c.T.Fatal("the context of the work has not ended")
					}
				}
				if err := r.do(ctx, s, func(context.Context, tree.Stamp) error { return nil }); err != nil {
					c.T.Error("the next one: ", err)
				}
			})
		})
	}
}
