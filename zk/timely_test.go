package zk_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/session"
)

// TestEventsAreTimely changes an entry at moments that have nothing to do with the pings of the idle client that
// watches it. A node does not ask for rounds before a byte waits (Z5 disconnected before expired): the cluster's own
// rounds have confirmed the newest touch by then, but for the shortest timeouts, where a byte may wait for the two
// rounds that it asks for.
func TestEventsAreTimely(t *testing.T) {
	const changes = 100
	for _, one := range []struct {
		asks time.Duration
		// within bounds the time from the answer to a change to its event, most the rounds that are asked for.
		within time.Duration
		most   int
	}{
		{4 * time.Second, 40 * time.Millisecond, changes}, // nearly the least timeout: 4 s and two thirds
		{8 * time.Second, 20 * time.Millisecond, changes / 10},
		{30 * time.Second, 5 * time.Millisecond, changes / 100},
	} {
		t.Run(one.asks.String(), func(t *testing.T) {
			run(t, func(c *world) {
				t := c.T
				z, _ := served(t, c, "z", 10*time.Second, "n1:7404")
				for _, path := range []string{"/e", "/w"} {
					must[string](t)(z.Create(path, nil, 0, open))
				}
				heard := make(chan time.Time, 1)
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				s := &strict{
					c: c, host: "idle", Rand: rand.New(rand.NewPCG(1, 1)), nodes: []string{"n1"}, watches: "/w", asks: one.asks,
					heard: func(int32, string) { heard <- time.Now() }, lived: map[session.ID]bool{},
				}
				all.Go(func() { s.run(ctx) })
				time.Sleep(time.Minute)
				before := c.Sum("holdfast_zookeeper_rounds_requested_total")
				var delays []time.Duration
				for i := range changes {
					time.Sleep(one.asks/3 + time.Duration(i)*one.asks/3/changes)
					_, err := z.Set("/w", nil, -1)
					if err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					delays = append(delays, max(0, (<-heard).Sub(began)))
				}
				rounds := c.Sum("holdfast_zookeeper_rounds_requested_total") - before
				stop()
				all.Wait()
				slices.Sort(delays)
				worst, median := delays[changes-1], delays[changes/2]
				t.Logf("%d events, after %v, at most %v; %d rounds asked for", s.figures.events, median, worst, rounds)
				if worst > one.within || rounds > one.most || s.figures.events != changes {
					t.Errorf("want all %d events within %v, and %d rounds at most", changes, one.within, one.most)
				}
			})
		})
	}
}
