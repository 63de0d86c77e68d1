package recipes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client/recipes"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestReadersShareAndWritersDoNot: readers hold the lock together, a writer alone, and a reader that came behind a
// waiting writer waits for it.
func TestReadersShareAndWritersDoNot(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		l := recipes.NewLock(c.Session(cl, 10*time.Second), "/locks/a")
		first, err := l.RLock(ctx)
		if err != nil {
			c.T.Fatal(err)
		}
		second, err := l.TryRLock(ctx)
		if err != nil {
			c.T.Fatal("a second reader: ", err)
		}
		if _, err = l.TryLock(ctx); !errors.Is(err, recipes.ErrBusy) {
			c.T.Errorf("a writer beside readers: %v", err)
		}
		written := make(chan *recipes.Hold)
		go func() {
			h, lockErr := l.Lock(ctx)
			if lockErr != nil {
				c.T.Error(lockErr)
			}
			written <- h
		}()
		time.Sleep(time.Second)
		if _, err = l.TryRLock(ctx); !errors.Is(err, recipes.ErrBusy) {
			c.T.Errorf("a reader behind a writer that waits: %v", err)
		}
		if err = errors.Join(first.Unlock(ctx), second.Unlock(ctx)); err != nil {
			c.T.Error(err)
		}
		h := <-written
		if h.Token() <= second.Token() {
			c.T.Errorf("token %v of the writer after %v", h.Token(), second.Token())
		}
		if err = h.Unlock(ctx); err != nil {
			c.T.Error(err)
		}
	})
}

// TestReadersAndWriters: many of both, and never a writer beside another holder.
func TestReadersAndWriters(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		var readers, writers, most atomic.Int32
		var all sync.WaitGroup
		for i := range 30 {
			l := recipes.NewLock(s, "/locks/a")
			all.Go(func() {
				time.Sleep(time.Duration(i) * 30 * time.Millisecond) // readers come while a writer is in
				do, own := l.DoRead, &readers
				if i%5 == 0 {
					do, own = l.Do, &writers
				}
				err := do(context.Background(), func(ctx context.Context, _ tree.Stamp) error {
					own.Add(1)
					defer own.Add(-1)
					if w := writers.Load(); w > 1 || w == 1 && readers.Load() > 0 {
						c.T.Errorf("%d writers beside %d readers", w, readers.Load())
					}
					most.Store(max(most.Load(), readers.Load()))
					time.Sleep(100 * time.Millisecond)
					return ctx.Err()
				})
				if err != nil {
					c.T.Error(err)
				}
			})
		}
		all.Wait()
		if most.Load() < 2 {
			c.T.Error("readers never share")
		}
	})
}
