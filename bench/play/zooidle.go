package play

import (
	"context"
	"errors"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
	"holdfast/test/proc"
)

// zooIdleWork has 20,000 clients with sessions of 30 s, as far as files reach, that only ping. It measures RSS and
// live heap above those with 192 clients, and CPU over 30 s. The live heap has no stacks.
func zooIdleWork() Work {
	return zooWork("zk-idle", []Figure{
		{"zk_idle_clients", "idle clients with a session of 30 s, each on its connection", Count},
		{"zk_idle_rss", "RSS for each, three servers", Bytes},
		{"zk_idle_live", "live heap for each, three servers", Bytes},
		{"zk_idle_cpu", "servers' CPU, clients' pings alone", Percent},
		{"zk_idle_lost", "sessions lost", Count},
	}, 8*minute, zooIdle)
}

// zooIdle makes clients that do nothing but what their library does: they ping. It compares the servers' memory with
// what it was before, with some clients to warm up.
func zooIdle(ctx context.Context, s *stage, c system.ZooServed) error {
	const timeout, warmUp, during = 30 * time.Second, 20 * time.Second, 30 * time.Second
	some, _, err := zooConnectAll(ctx, 3*zooFlight, timeout, zooOne(c))
	defer func() { zooClose(ctx, some) }()
	if err != nil {
		return err
	}
	empty, err := s.Live(ctx)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	before, err := proc.RSS(s.Servers()...)
	if err != nil {
		return err
	}
	n := max(1, s.many(20_000)-len(some))
	all, _, err := zooConnectAll(ctx, n, timeout, zooOne(c))
	defer func() { zooClose(ctx, all) }()
	if err != nil {
		return err
	}
	if err = session.Sleep(ctx, warmUp); err != nil {
		return err
	}
	used, err := busy(ctx, s, during)
	if err != nil {
		return err
	}
	after, err := proc.RSS(s.Servers()...)
	if err != nil {
		return err
	}
	s.set("zk_idle_clients", float64(n+len(some)))
	s.set("zk_idle_cpu", used)
	s.set("zk_idle_rss", float64(after-before)/float64(n))
	if empty > 0 {
		full, err := s.Live(ctx)
		if err != nil {
			return err
		}
		s.set("zk_idle_live", float64(full-empty)/float64(n))
	}
	lost := 0
	for _, one := range all {
		if one.lost.Load() {
			lost++
		}
	}
	s.set("zk_idle_lost", float64(lost))
	return nil
}
