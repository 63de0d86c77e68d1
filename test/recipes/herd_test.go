package recipes

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/whole"
)

// contention is many sessions that contend at one path.
type contention struct {
	*whole.Cluster

	recipe  recipe
	clients []*client.Client
	// turns counts sessions that have had their turn.
	turns  sync.WaitGroup
	failed chan error
}

// recipe is what callers contend for.
type recipe struct {
	name string
	// line is the entry above the contenders.
	line string
	// acquire waits for a grant, and returns a function that releases it.
	acquire func(ctx context.Context, s *client.Session) (release func(context.Context) error, err error)
	// Bounds of the cost of a hand-over: events for waiters, writes and reads.
	events, writes, reads int
}

// grantOf returns a function that releases a grant.
func grantOf[T any](grant T, err error, release func(T, context.Context) error) (func(context.Context) error, error) {
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return release(grant, ctx) }, nil
}

// queueing are the recipes whose callers wait in a queue. A hand-over is one write, the release, one event, and two
// reads of the next contender: that no contender is left before it, and that its own entry still exists. A contender
// without readers ahead at its arrival never searches for them again. A permit of a semaphore costs one write more,
// which acquires it, one event more, of that write, and the reads for both. The watcher of an entry may be too late to
// remove its watch before its own entry goes: one event more.
func queueing() []recipe {
	return []recipe{
		{
			name: "lock", line: "/lock", events: 1, writes: 1, reads: 2,
			acquire: func(ctx context.Context, s *client.Session) (func(context.Context) error, error) {
				h, err := recipes.NewLock(s, "/lock").Lock(ctx)
				return grantOf(h, err, (*recipes.Hold).Unlock)
			},
		},
		{
			name: "election", line: "/election", events: 1, writes: 1, reads: 2,
			acquire: func(ctx context.Context, s *client.Session) (func(context.Context) error, error) {
				l, err := recipes.NewElection(s, "/election").Campaign(ctx, nil)
				return grantOf(l, err, (*recipes.Leadership).Resign)
			},
		},
		{
			name: "semaphore", line: "/semaphore/queue", events: 3, writes: 2, reads: 6,
			acquire: func(ctx context.Context, s *client.Session) (func(context.Context) error, error) {
				p, err := recipes.NewSemaphore(s, "/semaphore", 1).Acquire(ctx)
				return grantOf(p, err, (*recipes.Permit).Release)
			},
		},
	}
}

const herdTimeout = 40 * time.Second

// waiters is how many wait in TestAReleaseWakesOne.
var waiters = flag.Int("waiters", 300, "how many wait for one lock")

// TestAReleaseWakesOne: each waiter has one watch, and a release wakes one of them, however many there are.
func TestAReleaseWakesOne(t *testing.T) {
	number := *waiters
	for _, r := range queueing() {
		t.Run(r.name, func(t *testing.T) {
			whole.Run(t, func(cluster *whole.Cluster) {
				c := &contention{Cluster: cluster, recipe: r, failed: make(chan error, number)}
				c.drain(number)
			})
		})
	}
}

// drain lets one session hold while the others wait, and then each in turn.
func (c *contention) drain(number int) {
	ctx := context.Background()
	all := c.sessions(number + 1)
	defer func() {
		for _, cl := range c.clients {
			_ = cl.Close() // its errors have shown before
		}
	}()
	release, err := c.recipe.acquire(ctx, all[0])
	if err != nil {
		c.T.Fatal(err)
	}
	for _, s := range all[1:] {
		c.turns.Go(func() {
			if turnErr := c.turn(ctx, s); turnErr != nil {
				c.failed <- turnErr
			}
		})
	}
	time.Sleep(herdTimeout)
	synctest.Wait()
	waiting := c.spent()
	if spare := waiting.watches - number; spare < 0 || spare > 2 { // the holder's, and one of the first in the queue
		c.T.Errorf("%d waiters and the holder have %d watches", number, waiting.watches)
	}
	if err = release(ctx); err != nil {
		c.T.Fatal(err)
	}
	c.turns.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
	for len(c.failed) > 0 {
		c.T.Error(<-c.failed)
	}
	cost, most := c.spent().since(waiting), c.recipe
	c.T.Logf("%d hand-overs: %+v", number, cost)
	if cost.events > most.events*number+2 || cost.writes > most.writes*number+1 || cost.reads > most.reads*number {
		c.T.Errorf("%d hand-overs cost %+v, want at most %d events, %d writes and %d reads each", number, cost, most.events,
			most.writes, most.reads)
	}
	if cost.watches > 0 {
		c.T.Errorf("%d watches are left without a client", cost.watches)
	}
	if cost.events < number || cost.writes < number {
		c.T.Errorf("%d hand-overs cost %+v: something was not counted", number, cost)
	}
}

// turn waits for a grant, and gives it up at once.
func (c *contention) turn(ctx context.Context, s *client.Session) error {
	release, err := c.recipe.acquire(ctx, s)
	if err != nil {
		return err
	}
	return release(ctx)
}

// spent is the work of a cluster's nodes. The watches are the present ones.
type spent struct{ watches, events, writes, reads int }

func (c *contention) spent() spent {
	return spent{
		watches: c.Sum("holdfast_tree_watches"), events: c.Sum("holdfast_client_tree_events_total"),
		writes: c.Sum("holdfast_client_tree_writes_total"), reads: c.Sum("holdfast_client_tree_reads_total"),
	}
}

func (s spent) since(before spent) spent {
	return spent{s.watches, s.events - before.events, s.writes - before.writes, s.reads - before.reads}
}

// sessions opens sessions. Neighbours are of different clients: for one client a node has one watch of an entry.
func (c *contention) sessions(number int) (all []*client.Session) {
	const each = 1000
	for i := range 2 + number/each {
		c.clients = append(c.clients, c.Client(fmt.Sprintf("app%d", i)))
	}
	for i := range number {
		all = append(all, c.Session(c.clients[i%len(c.clients)], herdTimeout))
	}
	return all
}
