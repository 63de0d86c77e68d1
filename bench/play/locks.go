package play

import (
	"context"
	"errors"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
	"holdfast/test/proc"
)

// lockWork has one client lock and unlock a free lock, 500 times through the leader and 500 through a follower, in
// turns. Then the two clients hand the lock over to each other 100 times, each time 150 ms after the next one has
// queued. Holdfast uses client/recipes, ZooKeeper the recipe of its documentation in Go and kazoo's Lock, etcd
// client/v3/concurrency.
func lockWork() Work {
	return Work{
		Name: "locks",
		Figures: []Figure{
			{"lock_leader_p50", "lock and unlock by one client through the leader, p50", Seconds},
			{"lock_leader_p99", "the same, p99", Seconds},
			{"lock_leader_rate", "pairs/s of it", PerSecond},
			{"lock_follower_p50", "lock and unlock by one client through a follower, p50", Seconds},
			{"lock_follower_p99", "the same, p99", Seconds},
			{"lock_follower_rate", "pairs/s of it", PerSecond},
			{"lock_pass_p50", "from the unlock of one client until the next one has the lock, p50", Seconds},
			{"lock_pass_p99", "the same, p99", Seconds},
		},
		bound: 5 * minute,
		locks: true,
		play:  lockByTwo,
	}
}

// lockByTwo has a client at the leader and one at a follower lock and unlock in turns, and then hand the lock over to
// each other.
func lockByTwo(ctx context.Context, s *stage) error {
	cluster, ok := s.Cluster.(system.Locking)
	if !ok {
		return errors.ErrUnsupported
	}
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	c, err := cluster.Contest(ctx, []int{leader, (leader + 1) % len(s.Servers())})
	if err != nil {
		return err
	}
	defer c.End()
	const turns = 5
	names := []string{"leader", "follower"}
	alone := make([]outcome, len(names))
	for i := range turns * len(names) {
		which := i % len(names)
		var took []time.Duration
		if took, err = c.Alone(ctx, which, s.scaled(100)); err != nil {
			return err
		}
		if i >= len(names) { // the first turn of each is to warm up
			alone[which].took = append(alone[which].took, took...)
		}
	}
	for i, name := range names {
		alone[i].sort()
		s.set("lock_"+name+"_p50", alone[i].at(0.5).Seconds())
		s.set("lock_"+name+"_p99", alone[i].at(0.99).Seconds())
		alone[i].elapsed = total(alone[i].took)
		s.set("lock_"+name+"_rate", alone[i].rate())
	}
	var passed outcome
	for range 2 { // the first is to warm up
		if passed.took, err = c.Pass(ctx, s.scaled(100)); err != nil {
			return err
		}
	}
	passed.sort()
	s.set("lock_pass_p50", passed.at(0.5).Seconds())
	s.set("lock_pass_p99", passed.at(0.99).Seconds())
	return nil
}

func total(all []time.Duration) (sum time.Duration) {
	for _, took := range all {
		sum += took
	}
	return sum
}

// lockQueueWork has 1,000 clients of 1,000 sessions, a third at each server, wait for one lock; each unlocks as soon as
// it has the lock. Each has a connection of its own. The clients of kazoo and of etcd are in processes of their own.
func lockQueueWork() Work {
	return Work{
		Name: "lock-queue",
		Figures: []Figure{
			{"lock_queue_drained", "1,000 waiters of one lock, each unlocks at once: until the last has", Seconds},
			{"lock_queue_cpu", "servers' CPU for it", Seconds},
			{"lock_queue_entries", "entries of the log for each waiter", Count},
		},
		bound: 5 * minute,
		locks: true,
		play:  drainQueue,
	}
}

// quiet is between the moment at which all clients are queued and the first release: all watches are set then.
const quiet = 5 * time.Second

// drainQueue has many clients wait for one lock.
func drainQueue(ctx context.Context, s *stage) error {
	cluster, ok := s.Cluster.(system.Locking)
	if !ok {
		return errors.ErrUnsupported
	}
	n := s.scaled(1_000)
	at := make([]int, 1+n)
	for i := range at {
		at[i] = i % len(s.Servers())
	}
	c, err := cluster.Contest(ctx, at)
	if err != nil {
		return err
	}
	defer c.End()
	if err = c.Queue(ctx); err != nil {
		return err
	}
	if err = session.Sleep(ctx, quiet); err != nil {
		return err
	}
	entries, err := cluster.Entries(ctx)
	if err != nil {
		return err
	}
	before := proc.CPU(s.Servers()...)
	took, err := c.Drain(ctx)
	if err != nil {
		return err
	}
	s.set("lock_queue_cpu", (proc.CPU(s.Servers()...) - before).Seconds())
	s.set("lock_queue_drained", took.Seconds())
	after, err := cluster.Entries(ctx)
	if err != nil {
		return err
	}
	s.set("lock_queue_entries", float64(after-entries)/float64(1+n))
	return nil
}
