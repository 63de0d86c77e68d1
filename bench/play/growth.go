package play

import (
	"context"
	"fmt"
	"slices"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
	"holdfast/test/proc"
	"holdfast/tree"
)

// step is a size at which something that grows is measured.
type step struct {
	name string
	n    int
}

func sessionSteps() []step { return []step{{"10k", 10_000}, {"100k", 100_000}, {"1m", 1_000_000}} }

func entrySteps() []step { return append(sessionSteps(), step{"5m", 5_000_000}) }

// growthSessionWork opens sessions until there are 1,000,000. At each step it opens 200 more at the leader, one after
// the other. In the end it measures RSS, and restarts all servers. A system ends at the last step that it can reach.
func growthSessionWork() Work {
	figures := []Figure{
		{"growth_session_rss", "RSS per session at the last step, all servers", Bytes},
		{"growth_session_restart", "all servers restarted with these sessions: a new session after", Seconds},
	}
	return growthWork("growth-sessions", "one open with %s sessions", "growth_open_", sessionSteps(), figures, growSessions)
}

// growthEntryWork creates entries of 100 B until there are 5,000,000. At each step it creates 200 more through the
// leader, one after the other. In the end it measures RSS, watches 1,000,000 entries, and restarts all servers.
func growthEntryWork() Work {
	figures := []Figure{
		{"growth_entry_rss", "RSS per entry at the last step, all servers", Bytes},
		{"growth_watch_rss", "RSS per watch of 1 M, all servers", Bytes},
		{"growth_entry_restart", "all servers restarted with these entries: a new session after", Seconds},
	}
	w := growthWork("growth-entries", "one create with %s entries", "growth_create_", entrySteps(), figures, growEntries)
	w.needs = can[system.Treed]
	return w
}

func growthWork(name, title, key string, steps []step, more []Figure, play func(context.Context, *stage) error) Work {
	w := Work{Name: name, Apart: true, bound: 30 * minute, play: play}
	for _, at := range steps {
		w.Figures = append(w.Figures,
			Figure{key + at.name + "_p50", fmt.Sprintf(title+", p50", at.name), Seconds},
			Figure{key + at.name + "_p99", "the same, p99", Seconds})
	}
	w.Figures = append(w.Figures, more...)
	return w
}

// settle is a wait for the servers' collections and snapshots before RSS is read.
const settle = 10 * time.Second

// grow makes things up to each step, and measures one request after the other there. It returns the RSS for each thing
// at the last step, 0 without one.
func (s *stage) grow(ctx context.Context, key string, steps []step, add func(from, to int) error, one request,
) (perThing float64, err error) {
	before, err := proc.RSS(s.Servers()...)
	if err != nil {
		return 0, err
	}
	made := 0
	for _, at := range steps {
		n := s.scaled(at.n)
		if err = add(made, n); err != nil {
			return 0, err
		}
		made = n
		var o *outcome
		if o, err = flood(ctx, 200, 1, func(i int, done func(error)) { one(made+i, done) }); err != nil {
			return 0, err
		}
		s.set(key+at.name+"_p50", o.at(0.5).Seconds())
		s.set(key+at.name+"_p99", o.at(0.99).Seconds())
	}
	if err = session.Sleep(ctx, settle); err != nil {
		return 0, err
	}
	after, err := proc.RSS(s.Servers()...)
	return float64(after-before) / float64(max(made, 1)), err
}

func growSessions(ctx context.Context, s *stage) error {
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	size := len(s.Servers())
	reachable := slices.DeleteFunc(sessionSteps(), func(at step) bool { return s.many(at.n) < s.scaled(at.n) })
	conns, err := connectAll(ctx, s, s.many(1_000_000)/crowded/size+1)
	if err != nil {
		return err
	}
	kept := keep(ctx, conns, short)
	defer func() { kept.stop(); endAll(conns) }()
	each, err := s.grow(ctx, "growth_open_", reachable, func(from, to int) error {
		_, failed := flood(ctx, to-from, flight, spread(conns, make([]system.Session, to-from), long))
		return failed
	}, func(_ int, done func(error)) { openOne(conns[leader], long, done) })
	s.set("growth_session_rss", each)
	if err != nil {
		return err
	}
	kept.stop()
	return s.restart(ctx, "growth_session_restart")
}

func growEntries(ctx context.Context, s *stage) error {
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	each, err := s.grow(ctx, "growth_create_", entrySteps(), func(from, to int) error {
		create := p.creating("growth", tree.Persistent)
		_, failed := flood(ctx, to-from, flight, func(i int, done func(error)) { create(from+i, done) })
		return failed
	}, func(i int, done func(error)) { p.writers[leader].create(entry("one", i), tree.Persistent, done) })
	s.set("growth_entry_rss", each)
	if err != nil {
		return err
	}
	if err = s.watchMany(ctx); err != nil {
		return err
	}
	p.kept.stop()
	return s.restart(ctx, "growth_entry_restart")
}

// watchMany watches entries with 200 clients, each watch once.
func (s *stage) watchMany(ctx context.Context) error {
	const clients = 200
	cluster, ok := s.Cluster.(system.Observed)
	if !ok {
		return nil
	}
	var all []system.Watcher
	defer func() {
		for _, w := range all {
			w.End()
		}
	}()
	for i := range s.Servers() {
		some, err := cluster.Watchers(ctx, i, (clients+i)/len(s.Servers()))
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	before, err := proc.RSS(s.Servers()...)
	if err != nil {
		return err
	}
	n := s.scaled(1_000_000)
	if _, err = flood(ctx, n, flight, func(i int, done func(error)) {
		all[i%len(all)].Watch(entry("growth", i%s.scaled(10_000)), tree.WatchData, func(error) {}, done)
	}); err != nil {
		return err
	}
	after, err := proc.RSS(s.Servers()...)
	s.set("growth_watch_rss", float64(after-before)/float64(n))
	return err
}

// restart restarts all servers, and measures until a session is open.
func (s *stage) restart(ctx context.Context, key string) error {
	begin := time.Now()
	if err := s.Restart(ctx); err != nil {
		return err
	}
	c, err := s.Connect(ctx, 0)
	if err != nil {
		return err
	}
	defer c.End()
	took, err := firstOpen(ctx, []system.Conn{c}, begin)
	s.set(key, took.Seconds())
	return err
}
