package recipes

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/whole"
	"holdfast/tree"
)

// TestForeignEntriesBlockNoContender: an entry whose name begins like a contender's, but that is of no contender, hides
// no contender ahead of it: neither the holder from waiters, nor a leader from observers.
func TestForeignEntriesBlockNoContender(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := c.Client("app")
		defer cl.Close()
		s := c.Session(cl, 10*time.Second)
		in := s.Tree()
		foreign := func(all ...string) {
			for _, path := range all {
				if _, err := in.Create(ctx, path, nil, client.CreateOptions{Parents: true}); err != nil {
					c.T.Fatal(err)
				}
			}
		}
		foreign("/locks/a/lock-!", "/locks/a/lock-..........", "/locks/a/lock-0000000010!", "/leaders/candidate-!")
		m := recipes.NewLock(s, "/locks/a")
		for range 3 {
			held, err := m.Lock(ctx)
			if err != nil {
				c.T.Fatal(err)
			}
			foreign(held.Path()+"!", held.Path()+".bak")
			if _, err = m.TryLock(ctx); !errors.Is(err, recipes.ErrBusy) {
				c.T.Fatalf("a lock that is held by %s: %v", held.Path(), err)
			}
			waiting, cancel := context.WithTimeout(ctx, time.Second)
			if second, failed := m.Lock(waiting); !errors.Is(failed, context.DeadlineExceeded) {
				c.T.Fatalf("held twice: by %s, and %v: %v", held.Path(), second, failed)
			}
			cancel()
			if err = held.Unlock(ctx); err != nil {
				c.T.Fatal(err)
			}
		}
		e := recipes.NewElection(s, "/leaders")
		if _, err := e.Leader(ctx); !errors.Is(err, recipes.ErrNoLeader) {
			c.T.Errorf("without a leader: %v", err)
		}
		seen := make(chan tree.Stamp, 1)
		observing, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			for leader, err := range e.Observe(observing) {
				if err == nil {
					seen <- leader.Token
				}
				return
			}
		}()
		leads, err := e.Campaign(ctx, []byte("x"))
		if err != nil {
			c.T.Fatal(err)
		}
		if got := <-seen; got != leads.Token() {
			c.T.Errorf("the leader that is seen has token %v, want %v", got, leads.Token())
		}
		if leader, err := e.Leader(ctx); err != nil || leader.Token != leads.Token() {
			c.T.Errorf("the leader: %+v, %v", leader, err)
		}
	})
}
