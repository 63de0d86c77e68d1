package recipes

import (
	"context"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/whole"
	"holdfast/tree"
)

// failing returns a client that gives up what is in flight on a lost connection.
func failing(c *whole.Cluster, host string) *client.Client {
	c.T.Helper()
	var endpoints []string
	for _, n := range c.Names {
		endpoints = append(endpoints, n+":7400")
	}
	cl, err := client.New(client.Config{Endpoints: endpoints, Dial: c.Host(host).Dial, InFlight: client.FailInFlight})
	if err != nil {
		c.T.Fatal(err)
	}
	return cl
}

// unanswered calls f while no node's answers come to a host. The calls of f come to the nodes.
func unanswered(c *whole.Cluster, host string, f func() error) error {
	for _, n := range c.Names {
		c.Cut(n, host)
	}
	heal := time.AfterFunc(20*time.Second, func() { // by then the client has left its node
		for _, n := range c.Names {
			c.Heal(n, host)
		}
	})
	defer heal.Stop()
	return f()
}

// TestWritesOfRecipesAreAnswered: a client that fails requests in flight on a lost connection leaves no forgotten entry
// in a queue, and keeps no grant of a caller that gave up.
func TestWritesOfRecipesAreAnswered(t *testing.T) {
	for _, r := range queueing() {
		t.Run(r.name, func(t *testing.T) {
			whole.Run(t, func(c *whole.Cluster) {
				ctx := context.Background()
				cl, other := failing(c, "app"), c.Client("other")
				defer cl.Close()
				defer other.Close()
				s, next := c.Session(cl, time.Minute), c.Session(other, time.Minute)
				var release func(context.Context) error
				if err := unanswered(c, "app", func() (err error) {
					release, err = r.acquire(ctx, s)
					return err
				}); err != nil {
					c.T.Fatal("taking: ", err)
				}
				if err := unanswered(c, "app", func() error { return release(ctx) }); err != nil {
					c.T.Error("giving up: ", err)
				}
				patience, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				if _, err := r.acquire(patience, next); err != nil {
					c.T.Errorf("the next one, while the first session is %v: %v", s.State(), err)
				}
			})
		})
	}
}

// TestOtherWritesOfRecipesAreAnswered: the same for writes that add no entry to a line.
func TestOtherWritesOfRecipesAreAnswered(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		ctx := context.Background()
		cl := failing(c, "app")
		defer cl.Close()
		s := c.Session(cl, time.Minute)
		group, count := recipes.NewGroup(s.Tree(), "/group"), recipes.NewCounter(s, "/count")
		barrier, both := recipes.NewBarrier(s, "/barrier"), recipes.NewDoubleBarrier(s, "/both", 1)
		queue, once := recipes.NewQueue(s, "/queue"), recipes.NewOnce(s, "/once")
		var member *recipes.Membership
		var claim *recipes.Claim
		var inside *recipes.Inside
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"join", func() (err error) {
				member, err = group.Join(ctx, s, recipes.Member{ID: "a"})
				return err
			}},
			{"set", func() error { return member.Set(ctx, recipes.Member{Health: recipes.Warning}) }},
			{"leave", func() error { return member.Leave(ctx) }},
			{"add first", func() error {
				_, err := count.Add(ctx, 1)
				return err
			}},
			{"add", func() error {
				_, err := count.Add(ctx, 1)
				return err
			}},
			{"raise", func() error { return barrier.Raise(ctx) }},
			{"lower", func() error { return barrier.Lower(ctx) }},
			{"put", func() error { return queue.Put(ctx, []byte("a")) }},
			{"take", func() (err error) {
				claim, err = queue.Take(ctx)
				return err
			}},
			{"finish", func() error { return claim.Finish(ctx) }},
			{"do once", func() error {
				_, _, err := once.Do(ctx, "a", func(context.Context, tree.Stamp) ([]byte, error) { return nil, nil })
				return err
			}},
			{"forget", func() error { return once.Forget(ctx, "a") }},
			{"enter", func() (err error) {
				inside, err = both.Enter(ctx)
				return err
			}},
			{"leave together", func() error { return inside.Leave(ctx) }},
		} {
			if err := unanswered(c, "app", step.do); err != nil {
				c.T.Fatalf("%s: %v", step.name, err)
			}
		}
	})
}
