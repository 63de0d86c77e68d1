package tree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	treeservice "holdfast/learner/tree"
	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/watch"
)

// storeAt is a place for a change that no session makes.
func storeAt(w *world, position int) store.At {
	return store.At{Stamp: tree.StampAt(w.index, position), Principals: []tree.Principal{{Scheme: tree.Super}}}
}

// U4: the first write of a local session upgrades it. Requests behind the write wait for that in their order; reads
// before it do not. If the session stays local, its writes are refused, and reads are still answered.
var errTooLate = errors.New("too late")

func TestU4ALocalSessionIsUpgraded(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		told []string
	}{
		"and writes":  {nil, []string{"1: done", "2: done", read(2, 3)}},
		"and may not": {session.ErrLocalSession, []string{"1: local", "2: local", read(2, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				c := w.connects(one)
				c.local[one] = true
				upgraded := make(chan struct{})
				c.upgrade = func(ctx context.Context, id session.ID) error {
					select {
					case <-upgraded:
					case <-ctx.Done():
						return ctx.Err()
					}
					c.mu.Lock()
					defer c.mu.Unlock()
					c.local[id] = test.err != nil
					return test.err
				}
				reads := func() {
					if err := c.reads(tree.Query{Kind: tree.GetStat, Path: "/", Session: uint64(one)}); err != nil {
						w.Error(err)
					}
				}
				reads()
				c.hears(read(1, w.index))
				c.writes(one, 1, 2)
				reads()
				c.hears()
				w.sends("")
				close(upgraded)
				if test.err == nil {
					w.applies(w.sends("7.1 7.2")...)
				} else {
					w.sends("")
				}
				c.hears(test.told...)
			})
		})
	}
}

// U4: what waits for an upgrade has the bounds of a session's unanswered writes. A connection that closes meanwhile
// ends the upgrade.
func TestU4WhatWaitsForAnUpgradeIsBounded(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		c.local[one] = true
		ended := false
		c.upgrade = func(ctx context.Context, _ session.ID) error {
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}
		for number := uint64(1); number <= tree.MaxUnanswered; number++ {
			c.writes(one, number)
		}
		err := c.conn.Write(session.TreeWrite{Key: 999, Write: numbered(one, tree.MaxUnanswered+1, 0)})
		limit, ok := errors.AsType[*session.LimitError](err)
		if !ok || limit.Name != "requests_behind_upgrade" || limit.RetryAfter <= 0 {
			w.Errorf("one more: %v", err)
		}
		c.conn.Close()
		if !ended {
			w.Error("the upgrade goes on")
		}
	})
}

// A unary call adopts a session that another connection serves, and gets the answer to its write.
func TestAnAdoptedSession(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		c.writes(one, 1)
		w.applies(w.sends("7.1")...)
		c.hears("1: done")
		call := w.connects()
		if err := call.conn.Write(session.TreeWrite{Key: 2, Write: numbered(one, 2, 0)}); !errors.Is(err, session.ErrMoved) {
			w.Errorf("before: %v", err)
		}
		if _, err := call.conn.Adopt(w.Context(), session.Token{ID: one}); err != nil {
			w.Fatal(err)
		}
		call.writes(one, 2)
		w.applies(w.sends("7.2")...)
		call.hears("2: done")
		c.hears()
	})
}

// watchedSessions runs a watch of sessions, and returns the changes since the last call.
func (w *world) watchSessions(ctx context.Context, asked session.SessionWatch, end func(error)) (told func() []string) {
	var mu sync.Mutex
	var all []string
	go func() {
		end(w.service.WatchSessions(ctx, asked, func(batch []session.SessionEvent) error {
			mu.Lock()
			defer mu.Unlock()
			for _, one := range batch {
				text := fmt.Sprint("up to ", one.Stamp.Index())
				switch {
				case one.Lost:
					text = fmt.Sprint("lost up to ", one.Stamp.Index())
				case one.Change != nil:
					text = fmt.Sprintf("%d of %d at %d", one.Change.Kind, uint64(one.Change.Session.ID), one.Stamp.Index())
				}
				all = append(all, text)
			}
			return nil
		}))
	}()
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		some := all
		all = nil
		return some
	}
}

// V8: a watch of sessions from now on begins with a stamp alone, though the ring has dropped that for the sessions of
// an entry that the node does not show yet.
func TestV8AWatchOfSessionsBeginsWithAStamp(t *testing.T) {
	inWorld(t, func(cfg *treeservice.Config) {
		cfg.Hub = dispatch.DefaultHubLimits()
		cfg.Hub.Sessions = watch.RingLimits{Items: 4, Bytes: 1 << 20}
	}, func(w *world) {
		var opened []session.Change
		for i := range 6 {
			opened = append(opened, session.Change{
				Kind: session.Opened, Session: session.Session{ID: one + session.ID(i)}, Stamp: tree.StampAt(2, i+1),
			})
		}
		w.service.AppliedSessions(2, opened)
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		told := w.watchSessions(ctx, session.SessionWatch{}, func(error) {})
		if got := told(); !slices.Equal(got, []string{"up to 1"}) {
			t.Errorf("began with %q", got)
		}
		w.index = 2
		w.applies()
		if got := told(); !slices.Equal(got, []string{"lost up to 3"}) {
			t.Errorf("told %q of what the ring has dropped", got)
		}
	})
}

// V8: a watcher gets the opens, moves and ends of sessions, in order, from now on or from a stamp. What the ring no
// longer has is LOST. A quiet watcher gets the newest stamp each second.
func TestV8SessionsAreWatched(t *testing.T) {
	inWorld(t, func(cfg *treeservice.Config) {
		cfg.Hub = dispatch.DefaultHubLimits()
		cfg.Hub.Sessions = watch.RingLimits{Items: 4, Bytes: 1 << 20}
	}, func(w *world) {
		expect := func(what string, got []string, want ...string) {
			w.Helper()
			if !slices.Equal(got, want) {
				w.Errorf("%s: told %q, want %q", what, got, want)
			}
		}
		ctx, cancel := context.WithCancelCause(w.Context())
		ended := make(chan error, 1)
		told := w.watchSessions(ctx, session.SessionWatch{}, func(err error) { ended <- err })
		expect("at first", told(), "up to 1")
		w.opens(one)
		w.moves(one)
		w.opens(other)
		w.ends(one)
		change := func(kind session.ChangeKind, id session.ID, at int) string {
			return fmt.Sprintf("%d of %d at %d", kind, uint64(id), at)
		}
		expect("then", slices.DeleteFunc(told(), func(s string) bool { return s[0] == 'u' }),
			change(session.Opened, one, 2), change(session.Moved, one, 3), change(session.Opened, other, 4),
			change(session.Ended, one, 5))
		since := w.watchSessions(ctx, session.SessionWatch{Since: watch.End(3)}, func(error) {})
		expect("from a stamp", since(), change(session.Opened, other, 4), change(session.Ended, one, 5), "up to 5")
		w.applies() // nothing happens to sessions
		expect("nothing", told())
		time.Sleep(time.Second)
		expect("a second later", told(), "up to 6")
		time.Sleep(5 * time.Second)
		expect("and not again", told())
		for range 6 {
			w.moves(other)
		}
		old := w.watchSessions(ctx, session.SessionWatch{Since: watch.End(3)}, func(error) {})
		expect("from a stamp that the ring has not", old(), "lost up to 12")
		told()
		w.restores(nil)
		expect("after a snapshot", told(), "lost up to 13")
		cancel(errTooLate)
		if err := <-ended; !errors.Is(err, errTooLate) {
			w.Errorf("ended with %v", err)
		}
		synctest.Wait()
	})
}

// V8: a watch of sessions is refused as a read of the tree is, and waits for what its client has seen.
func TestV8WatchesOfSessionsAreRefused(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		begin := func(asked session.SessionWatch) error {
			stop := errors.New("told")
			return w.service.WatchSessions(w.Context(), asked, func([]session.SessionEvent) error { return stop })
		}
		ahead := session.SessionWatch{Since: watch.End(w.index + 1)}
		began := time.Now()
		if err := begin(ahead); !errors.Is(err, session.ErrLagging) || time.Since(began) != 2*time.Second {
			w.Errorf("ahead of the node: %v after %v", err, time.Since(began))
		}
		go w.applies()
		if err := begin(ahead); err == nil || err.Error() != "told" {
			w.Errorf("once the node is there: %v", err)
		}
		w.node.mu.Lock()
		w.node.standing = session.ErrNoLeader
		w.node.mu.Unlock()
		if err := begin(session.SessionWatch{}); !errors.Is(err, session.ErrNoLeader) {
			w.Errorf("without standing: %v", err)
		}
		stale := session.SessionWatch{Options: tree.ReadOptions{AllowStale: true}}
		if err := begin(stale); err == nil || err.Error() != "told" {
			w.Errorf("without standing, and allowed: %v", err)
		}
	})
}

// Watches of a connection: events come before the answer of the write that made them, and removed ones get no more.
func TestWatchesOfAConnection(t *testing.T) {
	inWorld(t, func(cfg *treeservice.Config) {
		cfg.Dispatchers, cfg.Pending = 1, pending.DefaultLimits()
	}, func(w *world) {
		c := w.connects(one)
		specs := []tree.WatchSpec{{Path: "/", Kind: tree.WatchRecursive}}
		if err := c.conn.AddWatches(session.TreeAddition{Key: 500, Addition: tree.Addition{Watches: specs}}); err != nil {
			w.Fatal(err)
		}
		c.hears("500: done")
		if n, bytes := w.service.Watches(); n != 1 || bytes != 97 {
			w.Errorf("%d watches, %d bytes", n, bytes)
		}
		c.writes(one, 1, 2)
		sent := w.sends("7.1 7.2")
		w.applies(sent[0])
		c.hears("event /7-1", "1: done")
		if err := c.conn.RemoveWatches(501, specs); err != nil {
			w.Fatal(err)
		}
		w.applies(sent[1])
		c.hears("501: done", "2: done")
		if n, bytes := w.service.Watches(); n+bytes != 0 {
			w.Errorf("%d watches and %d bytes are left", n, bytes)
		}
	})
}

// D5: a read returns how long entries have left, on the log clock as the node knows it.
func TestD5ReadsTellTheRemainingTime(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects()
		at := storeAt(w, 1)
		at.L = time.Minute
		w.tree.Do(at, tree.Transaction{Then: []tree.Op{
			tree.Create{Path: "/a", Kind: tree.Expiring, TTL: 100 * time.Second},
			tree.Create{Path: "/b", Kind: tree.Persistent},
		}})
		for clock, left := range map[time.Duration]time.Duration{
			time.Minute: 100 * time.Second, 90 * time.Second: 70 * time.Second, time.Hour: 0,
		} {
			w.clock = clock
			w.applies()
			stats := map[string]time.Duration{}
			ask := func(q tree.Query) *tree.Answer {
				if err := c.reads(q); err != nil {
					w.Fatal(err)
				}
				synctest.Wait()
				told, ok := c.conn.Next(time.Now())
				if !ok || told.Answer == nil || told.Answer.Read == nil {
					w.Fatalf("told %+v", told)
				}
				return told.Answer.Read
			}
			stats["got"] = ask(tree.Query{Kind: tree.GetEntry, Path: "/a"}).Stat.Remaining
			for _, child := range ask(tree.Query{Kind: tree.ListChildren, Path: "/", WithStat: true}).Children {
				stats[child.Name] = child.Stat.Remaining
			}
			if stats["got"] != left || stats["a"] != left || stats["b"] != 0 {
				w.Errorf("at %v: %v, want %v", clock, stats, left)
			}
		}
	})
}
