package play

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/bench/system"
	"holdfast/session"
)

// zooVictims are the clients of the works that kill a server.
const zooVictims = 30

// zooLeaderWork kills the leader while 30 clients that know all servers write every 10 ms, and measures until each has
// done a write that began later.
func zooLeaderWork() Work {
	return zooWork("zk-leader-killed", zooDownFigures("zk_leader", "leader"), 3*minute,
		func(ctx context.Context, s *stage, c system.ZooServed) error {
			return zooDown(ctx, s, c, "zk_leader", 0)
		})
}

// zooNodeWork is zooLeaderWork with a follower.
func zooNodeWork() Work {
	return zooWork("zk-node-killed", zooDownFigures("zk_node", "follower"), 3*minute,
		func(ctx context.Context, s *stage, c system.ZooServed) error { return zooDown(ctx, s, c, "zk_node", 1) })
}

func zooDownFigures(key, what string) []Figure {
	return []Figure{
		{key + "_killed_own", what + " killed: its clients write again, the median of them", Seconds},
		{key + "_killed_own_last", "the last of them", Seconds},
		{key + "_killed_others", "the others' clients write again, the median", Seconds},
		{key + "_killed_others_last", "the last of them", Seconds},
		{key + "_killed_lost", "sessions lost, of 30", Count},
	}
}

// zooDown kills the server with that number after the leader's, while clients of all servers write all the time. It
// measures from the kill until a write is done that each client has begun after it.
func zooDown(ctx context.Context, s *stage, c system.ZooServed, key string, behind int) error {
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	victim := (leader + behind) % len(s.Servers())
	addresses := c.ZooAddresses()
	all, _, err := zooConnectAll(ctx, zooVictims, zooTimeout, func(int) []string { return addresses })
	defer func() { zooClose(ctx, all) }()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	down := &zooGap{written: make([]time.Duration, len(all)), done: make(chan struct{})}
	own := make([]bool, len(all))
	for i, one := range all {
		if _, err = one.Create(fmt.Sprintf("/client-%d", i), nil, 0, zookeeper.WorldACL(zookeeper.PermAll)); err != nil {
			return err
		}
		running.Go(func() { down.write(ctx, i, one) })
	}
	if err = session.Sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	for i, one := range all {
		own[i] = one.Server() == addresses[victim]
	}
	down.begin()
	if err = kill(ctx, s.Servers()[victim]); err != nil {
		return err
	}
	bound, stop := context.WithTimeout(ctx, maxFailover)
	defer stop()
	select {
	case <-down.done:
	case <-bound.Done():
		return fmt.Errorf("not all clients write again: %w", context.Cause(bound))
	}
	return down.report(s, key, own, all)
}

// report sets the figures.
func (g *zooGap) report(s *stage, key string, own []bool, all []*zooClient) error {
	for name, mine := range map[string]bool{"_own": true, "_others": false} {
		var took []time.Duration
		for i, t := range g.written {
			if own[i] == mine {
				took = append(took, t)
			}
		}
		if len(took) == 0 {
			return fmt.Errorf("of %d clients none was at one of the servers", len(own))
		}
		slices.Sort(took)
		s.set(key+"_killed"+name, took[len(took)/2].Seconds())
		s.set(key+"_killed"+name+"_last", took[len(took)-1].Seconds())
	}
	lost := 0
	for _, one := range all {
		if one.lost.Load() {
			lost++
		}
	}
	s.set(key+"_killed_lost", float64(lost))
	return nil
}

// zooGap is the time without a write, for each of some clients.
type zooGap struct {
	begun atomic.Pointer[time.Time]

	mu sync.Mutex
	// written are the times of the first writes, left counts those that are missing. guarded by mu, until done is closed
	written []time.Duration
	found   int
	done    chan struct{}
}

func (g *zooGap) begin() {
	now := time.Now()
	g.begun.Store(&now)
}

// write writes with a client, until a write that was begun after the kill is done.
func (g *zooGap) write(ctx context.Context, i int, c *zooClient) {
	path := fmt.Sprintf("/client-%d", i)
	for ctx.Err() == nil {
		begun := g.begun.Load()
		_, err := c.Set(path, make([]byte, entryBytes), -1)
		if err == nil && begun != nil {
			g.note(i, time.Since(*begun))
			return
		}
		if session.Sleep(ctx, 2*pace) != nil {
			return
		}
	}
}

func (g *zooGap) note(i int, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.written[i] = took
	if g.found++; g.found == len(g.written) {
		close(g.done)
	}
}
