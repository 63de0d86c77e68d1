package recipes_test

import (
	"context"
	"errors"
	"fmt"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/tree"
)

// ExampleLock works under a lock. The context ends before another can hold the lock, and the token shows a resource
// which holder came later.
func ExampleLock() {
	with(func(ctx context.Context, s *client.Session) error {
		m := recipes.NewLock(s, "/locks/printer")
		var last tree.Stamp
		for range 2 {
			err := m.Do(ctx, func(ctx context.Context, token tree.Stamp) error {
				fmt.Println("the token is higher than the last one:", token > last)
				last = token
				return ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	// Output:
	// the token is higher than the last one: true
	// the token is higher than the last one: true
}

// ExampleLock_TryLock does not wait.
func ExampleLock_TryLock() {
	with(func(ctx context.Context, s *client.Session) error {
		m := recipes.NewLock(s, "/locks/scanner")
		held, err := m.TryLock(ctx)
		if err != nil {
			return err
		}
		_, err = m.TryLock(ctx)
		fmt.Println("busy:", errors.Is(err, recipes.ErrBusy))
		return held.Unlock(ctx)
	})
	// Output:
	// busy: true
}

// ExampleLock_RLock lets readers in together.
func ExampleLock_RLock() {
	with(func(ctx context.Context, s *client.Session) error {
		l := recipes.NewLock(s, "/locks/catalogue")
		one, err := l.RLock(ctx)
		if err != nil {
			return err
		}
		two, err := l.RLock(ctx)
		if err != nil {
			return err
		}
		_, err = l.TryLock(ctx)
		fmt.Println("a writer has to wait:", errors.Is(err, recipes.ErrBusy))
		return errors.Join(one.Unlock(ctx), two.Unlock(ctx))
	})
	// Output:
	// a writer has to wait: true
}

// ExampleSemaphore lets two in at a time.
func ExampleSemaphore() {
	with(func(ctx context.Context, s *client.Session) error {
		pool := recipes.NewSemaphore(s, "/pools/licences", 2)
		one, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		two, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		_, err = pool.TryAcquire(ctx)
		fmt.Println("none is left:", errors.Is(err, recipes.ErrBusy))
		return errors.Join(one.Release(ctx), two.Release(ctx))
	})
	// Output:
	// none is left: true
}

// ExampleElection campaigns, and shows others the leader.
func ExampleElection() {
	with(func(ctx context.Context, s *client.Session) error {
		e := recipes.NewElection(s, "/elections/scheduler")
		leading, err := e.Campaign(ctx, []byte("10.0.0.7:80"))
		if err != nil {
			return err
		}
		leader, err := e.Leader(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s leads\n", leader.Value)
		return leading.Resign(ctx)
	})
	// Output:
	// 10.0.0.7:80 leads
}

// ExampleGroup registers an instance of a service, and shows who there is.
func ExampleGroup() {
	with(func(ctx context.Context, s *client.Session) error {
		g := recipes.NewGroup(s.Tree(), "/services/web")
		m, err := g.Join(ctx, s, recipes.Member{ID: "web-1", Address: "10.0.0.7:80"})
		if err != nil {
			return err
		}
		v, err := g.View(ctx)
		if err != nil {
			return err
		}
		defer v.Close()
		for _, member := range v.Members(nil) {
			fmt.Println(member.ID, member.Address, member.Health)
		}
		return m.Leave(ctx)
	})
	// Output:
	// web-1 10.0.0.7:80 passing
}

// ExampleBarrier blocks waiters until it is lowered.
func ExampleBarrier() {
	with(func(ctx context.Context, s *client.Session) error {
		b := recipes.NewBarrier(s, "/barriers/migration")
		if err := b.Raise(ctx); err != nil {
			return err
		}
		passed := make(chan error)
		go func() { passed <- b.Wait(ctx) }()
		fmt.Println("migrated")
		if err := b.Lower(ctx); err != nil {
			return err
		}
		return <-passed
	})
	// Output:
	// migrated
}

// ExampleDoubleBarrier starts and ends work together with others.
func ExampleDoubleBarrier() {
	err := sessions(2, func(ctx context.Context, all []*client.Session) error {
		ended := make(chan error)
		for _, s := range all {
			go func() {
				inside, err := recipes.NewDoubleBarrier(s, "/barriers/step", len(all)).Enter(ctx)
				if err == nil {
					err = inside.Leave(ctx)
				}
				ended <- err
			}()
		}
		err := errors.Join(<-ended, <-ended)
		fmt.Println("both have left")
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// both have left
}

// ExampleCounter counts.
func ExampleCounter() {
	with(func(ctx context.Context, s *client.Session) error {
		n := recipes.NewCounter(s, "/counters/orders")
		for range 2 {
			sum, err := n.Add(ctx, 5)
			if err != nil {
				return err
			}
			fmt.Println(sum)
		}
		return nil
	})
	// Output:
	// 5
	// 10
}

// ExampleQueue hands an item to a worker, which finishes it.
func ExampleQueue() {
	with(func(ctx context.Context, s *client.Session) error {
		q := recipes.NewQueue(s, "/queues/mail")
		if err := q.Put(ctx, []byte("a letter")); err != nil {
			return err
		}
		claim, err := q.Take(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", claim.Data)
		return claim.Finish(ctx)
	})
	// Output:
	// a letter
}

// ExampleOnce runs a job once, however many callers have its key.
func ExampleOnce() {
	with(func(ctx context.Context, s *client.Session) error {
		for range 2 {
			result, first, err := recipes.NewOnce(s, "/jobs").Do(ctx, "report-7",
				func(context.Context, tree.Stamp) ([]byte, error) { return []byte("written"), nil })
			if err != nil {
				return err
			}
			fmt.Printf("%s, by this call: %v\n", result, first)
		}
		return nil
	})
	// Output:
	// written, by this call: true
	// written, by this call: false
}
