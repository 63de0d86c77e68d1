package play

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/bench/system"
	"holdfast/test/proc"
	"holdfast/tree"
)

// eventWork changes an entry that 10,000 clients watch, a third at each server, and reports the median of seven
// changes. ZooKeeper has a connection for each client, Holdfast 50 Connect streams on a connection.
func eventWork() Work {
	return Work{
		Name: "event",
		Figures: []Figure{
			{"event_data", "a change that 10,000 clients watch, each once: until all have received the event", Seconds},
			{"event_data_cpu", "servers' CPU for it", Seconds},
			{"event_recursive", "the same with recursive watches of the entry above", Seconds},
			{"event_recursive_cpu", "servers' CPU for it", Seconds},
		},
		bound: 5 * minute,
		needs: can[system.Treed],
		play:  event,
	}
}

// event changes an entry that many clients at all servers watch, a few times.
func event(ctx context.Context, s *stage) error {
	cluster, ok := s.Cluster.(system.Observed)
	if !ok {
		return errors.ErrUnsupported
	}
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	path := entry("event", 0)
	if _, err = flood(ctx, 1, 1, p.creating("event", tree.Persistent)); err != nil {
		return err
	}
	if err = p.everywhere(ctx, path, nil); err != nil {
		return err
	}
	a := &audience{writer: p.writers[0], path: path}
	defer a.end()
	n := s.many(10_000)
	for i := range s.Servers() {
		some, err := cluster.Watchers(ctx, i, (n+i)/len(s.Servers()))
		if err != nil {
			return err
		}
		a.all = append(a.all, some...)
	}
	for _, kind := range []tree.WatchKind{tree.WatchData, tree.WatchRecursive} { // what lasts comes last
		name := "event_" + kind.String()
		took, used, err := a.measure(ctx, s, kind)
		if err != nil {
			return err
		}
		s.set(name, took.Seconds())
		s.set(name+"_cpu", used.Seconds())
	}
	return nil
}

// audience are the clients that watch an entry, and the session that changes it.
type audience struct {
	writer writer
	path   string
	all    []system.Watcher

	mu sync.Mutex
	// left counts the clients without the event; the last closes received. All guarded by mu.
	left     int
	received chan struct{}
	err      error
}

// measure sets the watches and changes the entry, a few times: one-shot watches are set again for each change. It
// returns the median of the times until all have received the event, and the mean of what the servers used meanwhile.
func (a *audience) measure(ctx context.Context, s *stage, kind tree.WatchKind) (took, used time.Duration, err error) {
	const rounds = 7
	var o outcome
	watched := a.path
	if kind == tree.WatchRecursive {
		watched = folder(0)
	}
	for i := range 1 + rounds { // the first is to warm up
		if i == 0 || kind == tree.WatchData {
			if _, err = flood(ctx, len(a.all), flight, func(i int, done func(error)) {
				a.all[i].Watch(watched, kind, a.count, done)
			}); err != nil {
				return 0, 0, err
			}
		}
		before, begin := proc.CPU(s.Servers()...), time.Now()
		if err = a.change(ctx); err != nil {
			return 0, 0, err
		}
		if i > 0 {
			o.took = append(o.took, time.Since(begin))
			used += proc.CPU(s.Servers()...) - before
		}
	}
	o.sort()
	return o.at(0.5), used / rounds, nil
}

// change sets the entry's data, and waits until all have received the event.
func (a *audience) change(ctx context.Context) error {
	received := make(chan struct{})
	a.mu.Lock()
	a.left, a.received = len(a.all), received
	a.mu.Unlock()
	failed := make(chan error, 1)
	a.writer.entries.Set(a.writer.session, a.path, make([]byte, entryBytes), func(err error) {
		if err != nil {
			failed <- err
		}
	})
	select {
	case <-received:
	case err := <-failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// count counts an event of one client.
func (a *audience) count(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
	if a.left--; a.received != nil && (a.left == 0 || a.err != nil) {
		close(a.received)
		a.received = nil
	}
}

func (a *audience) end() {
	for _, w := range a.all {
		w.End()
	}
}
