package tree_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	treeservice "holdfast/learner/tree"
	"holdfast/learner/tree/dispatch"
	"holdfast/session"
	"holdfast/tree"
)

// isFull reports whether a connection accepts no more requests.
func isFull(c *client) bool { return c.conn.Full() != nil }

// G8: a connection accepts so many requests, or so many bytes of them, and reports when it accepts more.
func TestG8RequestsOfAConnection(t *testing.T) {
	for name, test := range map[string]struct {
		requests, queued int
		limit            string
	}{
		"by their number": {3, 1 << 20, "queued_requests"},
		"by their bytes":  {100, 300, "queued_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(cfg *treeservice.Config) {
				cfg.Limits = dispatch.DefaultLimits()
				cfg.Limits.Requests, cfg.Limits.Queued = test.requests, test.queued
			}, func(w *world) {
				c := w.connects(one)
				c.writes(one, 1)
				waiting := 0
				for q := (tree.Query{Kind: tree.GetStat, Path: "/", Session: uint64(one)}); !isFull(c); waiting++ {
					if err := c.reads(q); err != nil {
						w.Fatal(err)
					}
				}
				full := c.conn.Full()
				err := c.reads(tree.Query{Kind: tree.GetStat, Path: "/", Session: uint64(one)})
				if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != test.limit {
					w.Errorf("one more: %v", err)
				}
				if waiting < 2 || waiting > 3 {
					w.Errorf("%d reads wait", waiting)
				}
				w.applies(w.sends("7.1")...)
				synctest.Wait()
				select {
				case <-full:
				default:
					w.Error("nobody was told that there is room")
				}
				if got := c.told(); len(got) != 1+waiting || isFull(c) {
					w.Errorf("told %q", got)
				}
			})
		})
	}
}

// G8: what is too much for the node is refused in its turn, whichever connection it comes through, and the memory is
// freed again.
func TestG8RequestsOfTheNode(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		asked := make(chan struct{})
		w.node.sync = func(ctx context.Context) error {
			select {
			case <-asked:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		big := func(c *client, key uint64) {
			q := tree.Query{Kind: tree.Sync}
			if err := c.conn.Read(session.TreeRead{Key: readKeys + key, Query: q, Bytes: 70 << 20}); err != nil {
				w.Error(err)
			}
		}
		a, b, c := w.connects(), w.connects(), w.connects()
		big(a, 1)
		big(b, 1)
		big(c, 1)
		a.hears()
		b.hears()
		told, _ := c.conn.Next(time.Now())
		limit, ok := errors.AsType[*session.LimitError](told.Answer.Err)
		if !ok || limit.Name != "node_queued_bytes" || limit.RetryAfter != session.BusyRetryAfter {
			w.Errorf("the third hears %+v, want to come again", told.Answer.Err)
		}
		c.hears()
		close(asked)
		a.hears(read(1, w.index))
		b.hears(read(1, w.index))
		big(c, 2)
		c.hears(read(2, w.index))
	})
}

// G9: reads run only while little enough of the connection's answers is unsent. Stuck returns the time for which
// nothing was read.
func TestG9UnsentAnswers(t *testing.T) {
	inWorld(t, func(cfg *treeservice.Config) {
		cfg.Limits = dispatch.DefaultLimits()
		cfg.Limits.Unsent = 3000
	}, func(w *world) {
		c, quick := w.connects(), w.connects()
		w.opens(one)
		w.tree.Do(storeAt(w, 1), tree.Transaction{Then: []tree.Op{
			tree.Create{Path: "/big", Kind: tree.Persistent, Data: make([]byte, 1000)},
		}})
		w.applies()
		for range 10 {
			if err := c.reads(tree.Query{Kind: tree.GetEntry, Path: "/big"}); err != nil {
				w.Fatal(err)
			}
		}
		synctest.Wait()
		if c.conn.Stuck(time.Now()) != 0 {
			w.Error("stuck at once")
		}
		time.Sleep(5 * time.Second)
		if got := c.conn.Stuck(time.Now()); got != 5*time.Second {
			w.Errorf("stuck for %v", got)
		}
		taken := 0
		for ; ; taken++ {
			if _, ok := c.conn.Next(time.Now()); !ok {
				break
			}
		}
		if taken != 3 { // each takes a little more than 1,000 bytes
			w.Errorf("%d answers were unsent", taken)
		}
		synctest.Wait()
		if c.conn.Stuck(time.Now()) >= 5*time.Second {
			w.Error("still stuck after something was taken")
		}
		if err := quick.reads(tree.Query{Kind: tree.GetStat, Path: "/big"}); err != nil {
			w.Fatal(err)
		}
		quick.hears(read(1, w.index))
		if got := len(c.told()); got != 3 {
			w.Errorf("%d answers followed, want 3", got)
		}
		for got := 6; got < 10; {
			n := len(c.told())
			if got += n; n == 0 {
				w.Fatalf("%d reads were answered", got)
			}
		}
	})
}

// G5, M5: a read waits for an index that its node has not applied, and is LAGGING when it has waited long enough.
// Linearizable reads share one question to the leader, and get its error.
func TestG5ReadsWait(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects()
		ahead := tree.Query{Kind: tree.GetStat, Path: "/", Options: tree.ReadOptions{Seen: tree.StampAt(w.index+1, 1)}}
		if err := c.reads(ahead); err != nil {
			w.Fatal(err)
		}
		c.hears()
		w.applies()
		c.hears(read(1, w.index))
		ahead.Options.Seen = tree.StampAt(w.index+1, 1)
		if err := c.reads(ahead); err != nil {
			w.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		c.hears("read 2: lagging")

		before := w.node.syncs
		asked := make(chan error)
		w.node.sync = func(context.Context) error { return <-asked }
		for range 5 {
			if err := c.reads(tree.Query{Kind: tree.Sync}); err != nil {
				w.Fatal(err)
			}
		}
		synctest.Wait()
		w.node.mu.Lock()
		questions := w.node.syncs - before
		w.node.mu.Unlock()
		if questions < 1 || questions > 4 {
			w.Errorf("%d questions are under way", questions)
		}
		for range questions {
			asked <- session.ErrNoLeader
		}
		synctest.Wait()
		if got := c.told(); len(got) != 5 || got[0] != "read 3: "+reason(session.ErrNoLeader) {
			w.Errorf("told %q", got)
		}
	})
}

// G6: a node without standing answers only what may be old.
func TestG6Standing(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects()
		w.node.mu.Lock()
		w.node.standing = session.ErrLagging
		w.node.mu.Unlock()
		q := tree.Query{Kind: tree.GetStat, Path: "/"}
		for _, q.Options.AllowStale = range []bool{false, true} {
			if err := c.reads(q); err != nil {
				w.Fatal(err)
			}
		}
		c.hears("read 1: lagging", read(2, w.index))
	})
}

// G7: a close waits for the session's earlier writes, and for nothing that comes later. It waits no longer than its
// context.
func TestG7AClosePassesNoWrite(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		if !w.service.Idle(one, 1) {
			w.Error("not settled without a write")
		}
		c.writes(one, 1, 2)
		sent := w.sends("7.1 7.2")
		if w.service.Idle(one, 1) || !w.service.Idle(one, 2) || !w.service.Idle(other, 1) {
			w.Error("wrongly settled")
		}
		passed := make(chan error, 1)
		go func() { passed <- w.service.WaitIdle(w.Context(), one, 1) }()
		synctest.Wait()
		c.writes(one, 3)
		w.applies(sent[0])
		synctest.Wait()
		if len(passed) > 0 {
			w.Fatal("passed a write")
		}
		w.applies(sent[1])
		synctest.Wait()
		if len(passed) == 0 {
			w.Fatal("waits for a later write")
		}
		if err := <-passed; err != nil {
			w.Error(err)
		}
		late := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, late)
		defer cancel()
		if err := w.service.WaitIdle(ctx, one, 1); !errors.Is(err, late) {
			w.Errorf("settles with %v", err)
		}
		w.applies(w.sends("7.3")...)
		c.hears("1: done", "2: done", "3: done")
	})
}

// G7: a close is not held up by a session that moves.
func TestG7ACloseOfAMovedSession(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		c.writes(one, 1)
		w.sends("7.1")
		passed := make(chan error, 1)
		go func() { passed <- w.service.WaitIdle(w.Context(), one, 1) }()
		synctest.Wait()
		w.moves(one)
		c.hears("1: moved")
		if err := <-passed; err != nil {
			w.Error(err)
		}
	})
}

// A closed connection accepts nothing and sends nothing. The queue keeps its sent writes until they are answered.
func TestAClosedConnection(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		c.writes(one, 1)
		w.sends("7.1")
		c.conn.Close()
		c.conn.Close()
		if err := c.reads(tree.Query{Kind: tree.GetStat, Path: "/"}); !errors.Is(err, session.ErrClosed) {
			w.Errorf("a read: %v", err)
		}
		w.service.ForwardBegan()
		w.applies(w.sends("7.1")...)
		c.hears()
		w.service.ForwardBegan()
		w.sends("")
	})
}

// upgradesAt makes sessions of a connection local until a channel is closed.
func upgradesAt(c *client, upgraded <-chan struct{}, ids ...session.ID) {
	for _, id := range ids {
		c.local[id] = true
	}
	c.upgrade = func(ctx context.Context, id session.ID) error {
		select {
		case <-upgraded:
		case <-ctx.Done():
			return ctx.Err()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.local[id] = false
		return nil
	}
}

// G8: what waits for upgrades counts for its connection, and keeps its place when it comes into the dispatcher.
func TestG8RequestsBehindUpgradesOfAConnection(t *testing.T) {
	inWorld(t, func(cfg *treeservice.Config) {
		cfg.Limits = dispatch.DefaultLimits()
		cfg.Limits.Queued = 5000
	}, func(w *world) {
		c, upgraded := w.connects(one, one+1), make(chan struct{})
		upgradesAt(c, upgraded, one, one+1)
		c.writes(one, 1)
		c.writes(one+1, 1)
		reads := func() error {
			return c.conn.Read(session.TreeRead{
				Key: readKeys + 1, Query: tree.Query{Kind: tree.GetStat, Path: "/", Session: uint64(one)}, Bytes: 5000,
			})
		}
		if err := reads(); err != nil || !isFull(c) {
			t.Fatalf("more waits than a connection may: %v", err)
		}
		err := reads()
		if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != "queued_bytes" {
			t.Errorf("one more: %v", err)
		}
		full := c.conn.Full()
		close(upgraded)
		synctest.Wait()
		w.applies(w.takes()...)
		c.hears("1: done", "1: done", read(1, w.index))
		select {
		case <-full:
		default:
			t.Error("nobody was told that there is room")
		}
	})
}

// G8: requests that wait for upgrades count for the node, until they are answered or their connection is gone. A
// principal gets three quarters of the memory, and another one is not refused then.
func TestG8RequestsBehindUpgradesOfTheNode(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		var all []*client
		const each = 3 << 20
		const most = dispatch.MaxNodeQueued*3/4 - each // the writes count too
		nextFrom := func(address string) error {
			id := one + session.ID(len(all))
			c := w.connectsFrom(tree.Principal{Scheme: tree.IP, ID: address}, id)
			upgradesAt(c, nil, id)
			all = append(all, c)
			c.writes(id, 1)
			return c.conn.Read(session.TreeRead{
				Key: readKeys, Query: tree.Query{Kind: tree.GetStat, Path: "/", Session: uint64(id)}, Bytes: each,
			})
		}
		next := func() error { return nextFrom("10.0.0.1") }
		for range most / each {
			if err := next(); err != nil {
				t.Fatalf("with %d of %d bytes: %v", len(all)*each, most, err)
			}
		}
		err := next()
		limit, ok := errors.AsType[*session.LimitError](err)
		if !ok || limit.Name != "node_queued_bytes" || limit.RetryAfter <= 0 {
			t.Fatalf("one more: %v", err)
		}
		if err := nextFrom("10.0.0.2"); err != nil {
			t.Fatalf("one of another address: %v", err)
		}
		for _, c := range all {
			c.conn.Close()
		}
		for range most / each {
			if err := next(); err != nil {
				t.Fatalf("after all went: %v", err)
			}
		}
		for _, c := range all {
			c.conn.Close()
		}
	})
}
