package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// treeCluster is a cluster of three nodes with a tree.
func treeCluster(t *testing.T, change func(*config.Config)) *testCluster {
	t.Helper()
	c := newTestCluster(t, 3, change)
	c.leader(within)
	c.eventually("a tree on nodes that serve", within, func() bool {
		return !slices.ContainsFunc(c.nodes, func(n *testNode) bool {
			return n.view.Tree().Level == 0 || n.server.Ready() != nil
		})
	})
	return c
}

// TestTreeThroughEveryNode writes, reads and watches through each node, the leader among them: answers come in order, a
// watch is told before the answer that shows its change (G1 order per connection), and a session's ephemerals go with
// it (U1 ephemerals end with the session).
func TestTreeThroughEveryNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := treeCluster(t, nil)
		defer c.stop()
		var clients []*treeClient
		for i, n := range c.nodes {
			x := c.treeClient(n)
			defer x.close()
			clients = append(clients, x)
			path := fmt.Sprintf("/n%d", i)
			x.did(tree.Create{Path: path, Kind: tree.Ephemeral, Data: []byte("1")})
			if a := x.read(tree.Query{Kind: tree.GetEntry, Path: path, Session: uint64(x.session.ID), Watch: true}); string(
				a.Read.Data) != "1" || a.Read.Stat.Owner != uint64(x.session.ID) {
				t.Errorf("node %d: read %+v", i, a.Read)
			}
			x.did(tree.Set{Path: path, Data: []byte("2"), Version: tree.Any})
			want := []tree.Event{{Stamp: x.told, Kind: tree.DataChanged, Path: path}}
			if !slices.Equal(x.events, want) {
				t.Errorf("V2: node %d: events %+v, want %+v", i, x.events, want)
			}
		}
		// What one client has seen, another node shows to whoever has seen it (N4 seen index), and to a linearizable
		// read (G5 linearizable reads).
		seen := clients[0].did(tree.Create{Path: "/late", Kind: tree.Persistent}).Stamp
		for i, x := range clients[1:] {
			for _, o := range []tree.ReadOptions{{Seen: seen}, {Linearizable: true}} {
				if a := x.read(tree.Query{Kind: tree.GetStat, Path: "/late", Options: o}); a.Err != nil || !a.Read.Exists {
					t.Errorf("node %d: %+v does not show the entry: %+v", i+1, o, a)
				}
			}
		}
		x := clients[0]
		if err := x.conn.Close(t.Context(), x.token); err != nil {
			t.Fatal(err)
		}
		if a := clients[1].read(tree.Query{Kind: tree.GetStat, Path: "/n0", Options: tree.ReadOptions{
			Linearizable: true,
		}}); a.Err != nil || a.Read.Exists {
			t.Errorf("U1: the ephemeral of a closed session: %+v", a)
		}
	})
}

// TestCloseGoesBehindWrites: G7. Without it the close overtakes the writes, which are then refused.
func TestCloseGoesBehindWrites(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := treeCluster(t, nil)
		defer c.stop()
		x := c.treeClient(c.nodes[0])
		defer x.close()
		keys := []uint64{x.write(tree.Create{Path: "/a", Kind: tree.Persistent})}
		x.key++
		if err := x.tree.Read(session.TreeRead{Key: x.key, Query: tree.Query{
			Kind: tree.GetStat, Path: "/a", Session: uint64(x.session.ID), Options: tree.ReadOptions{Linearizable: true},
		}}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, x.key)
		keys = append(keys, x.write(tree.Create{Path: "/b", Kind: tree.Persistent}))
		closed := make(chan error, 1)
		if x.conn.Start(session.Request{Close: &x.token}, func(session.Grant, error) {}) {
			t.Error("a close began before the writes in front of it had their answers")
		}
		go func() { closed <- x.conn.Close(t.Context(), x.token) }()
		for _, key := range keys {
			if a := x.answer(key); a.Err != nil {
				t.Errorf("request %d: %v", key, a.Err)
			}
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// TestWritesGoOnOverElections: X7. A node keeps the writes of its clients until they are answered.
func TestWritesGoOnOverElections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := treeCluster(t, nil)
		defer c.stop()
		leads := c.leader(within)
		x := c.treeClient(c.nodes[(slices.Index(c.nodes, leads)+1)%3])
		defer x.close()
		x.did(tree.Create{Path: "/c", Kind: tree.Persistent})
		c.kill(leads)
		var keys []uint64
		for range 20 {
			keys = append(keys, x.write(tree.Create{Path: "/c/", Sequential: true, Kind: tree.Persistent}))
		}
		for i, key := range keys {
			a := x.answer(key)
			if a.Err != nil || a.Wrote == nil {
				t.Fatalf("write %d: %+v", i, a)
			}
			if want := fmt.Sprintf("/c/%010d", i); a.Wrote.Outcome.Ops[0].Path != want {
				t.Errorf("I9: write %d made %s, want %s", i, a.Wrote.Outcome.Ops[0].Path, want)
			}
		}
	})
}

// TestAdoptedSessionsWrite: unary calls write for a session that another connection of the node serves.
func TestAdoptedSessionsWrite(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := treeCluster(t, nil)
		defer c.stop()
		x, y := c.treeClient(c.nodes[0]), c.treeClient(c.nodes[0])
		defer x.close()
		defer y.close()
		x.did(tree.Create{Path: "/a", Kind: tree.Persistent})
		if _, err := y.tree.Adopt(t.Context(), x.token); err != nil {
			t.Fatal(err)
		}
		y.key = 100
		if err := y.tree.Write(session.TreeWrite{Key: 100, Write: tree.NumberedWrite{
			Session: uint64(x.session.ID), Number: 2, Transaction: tree.Transaction{Then: []tree.Op{
				tree.Create{Path: "/b", Kind: tree.Ephemeral},
			}},
		}}); err != nil {
			t.Fatal(err)
		}
		if a := y.answer(100); a.Err != nil || a.Wrote.Outcome.Ops[0].Stat.Owner != uint64(x.session.ID) {
			t.Errorf("an adopted session's write: %+v", a)
		}
		x.number++
		x.did(tree.Create{Path: "/c", Kind: tree.Ephemeral})
		other := c.treeClient(c.nodes[1])
		defer other.close()
		if _, err := other.tree.Adopt(t.Context(), x.token); !errors.Is(err, session.ErrMoved) {
			t.Errorf("a node adopts another node's session: %v", err)
		}
	})
}

// TestSessionsAreWatched: V8.
func TestSessionsAreWatched(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := treeCluster(t, nil)
		defer c.stop()
		n := c.nodes[1]
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan session.SessionEvent, 100)
		ended := make(chan error, 1)
		go func() {
			ended <- n.server.WatchSessions(ctx, session.SessionWatch{}, func(all []session.SessionEvent) error {
				for _, one := range all {
					told <- one
				}
				return nil
			})
		}()
		first := <-told
		if first.Change != nil || first.Stamp == 0 || first.Lost {
			t.Errorf("first: %+v", first)
		}
		x := c.treeClient(c.nodes[0])
		defer x.close()
		if err := x.conn.Close(t.Context(), x.token); err != nil {
			t.Fatal(err)
		}
		var kinds []session.ChangeKind
		for last := first.Stamp; len(kinds) < 2; {
			one := <-told
			if one.Stamp < last {
				t.Errorf("stamps fall: %v behind %v", one.Stamp, last)
			}
			last = one.Stamp
			if one.Change != nil {
				kinds = append(kinds, one.Change.Kind)
			}
		}
		if !slices.Equal(kinds, []session.ChangeKind{session.Opened, session.Ended}) {
			t.Errorf("told %v", kinds)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestU4: the first write of a local session upgrades it, and all writes come in their order. Where upgrades are off, a
// write is refused with its reason.
func TestU4(t *testing.T) {
	for _, upgrade := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			c := treeCluster(t, func(cfg *config.Config) { cfg.Sessions.Local, cfg.Sessions.LocalUpgrade = true, upgrade })
			defer c.stop()
			n := c.nodes[1]
			c.eventually("ids for local sessions", within, func() bool { return n.server.Stats().LocalIDs > 0 })
			x := c.treeClientOf(n, session.OpenRequest{
				Spec: session.Spec{Timeout: 5 * time.Second}, Local: true,
				Instance: 7,
			})
			defer x.close()
			var keys []uint64
			for i := range 5 {
				keys = append(keys, x.write(tree.Create{Path: fmt.Sprintf("/%d", i), Kind: tree.Ephemeral}))
			}
			for i, key := range keys {
				a := x.answer(key)
				if refused := errors.Is(a.Err, session.ErrLocalSession); refused == upgrade || upgrade && a.Err != nil {
					t.Errorf("upgrades are %v: write %d: %v", upgrade, i, a.Err)
				}
			}
			if now, ok := n.view.Session(x.session.ID); ok != upgrade {
				t.Errorf("upgrades are %v: the session is %+v in the log", upgrade, now)
			}
		})
	}
}

// TestWritersSurviveARestore: a node whose state a snapshot replaces answers what the snapshot has from kept results,
// and sends the rest again (W4 answers from applied entries). Lasting watches are told LOST, one-shot ones are judged
// by the tree (V6 LOST).
func TestWritersSurviveARestore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := treeCluster(t, func(cfg *config.Config) {
			cfg.Tuning.SnapshotThreshold, cfg.Tuning.TrailingLogs, cfg.Tuning.SnapshotInterval = 8, 4, time.Second
		})
		defer c.stop()
		leads := c.leader(within)
		behind := c.nodes[(slices.Index(c.nodes, leads)+1)%3]
		x, other := c.treeClient(behind), c.treeClient(leads)
		defer x.close()
		defer other.close()
		x.did(tree.Create{Path: "/a", Kind: tree.Persistent})
		x.did(tree.Create{Path: "/once", Kind: tree.Persistent})
		if err := x.tree.AddWatches(session.TreeAddition{Key: 1000, Addition: tree.Addition{Watches: []tree.WatchSpec{
			{Path: "/a", Kind: tree.WatchRecursive}, {Path: "/once", Kind: tree.WatchData},
		}}}); err != nil {
			t.Fatal(err)
		}
		if a := x.answer(1000); a.Err != nil {
			t.Fatal(a.Err)
		}
		for _, n := range c.nodes { // the node still sends, and hears nothing
			if n != behind {
				c.Cut(n.name, behind.name)
			}
		}
		keys := []uint64{x.write(tree.Create{Path: "/a/", Sequential: true, Kind: tree.Persistent})}
		c.eventually("the leader has the write", within, func() bool {
			stat, _ := leads.view.Tree().Root.Stat("/a")
			return stat.Children == 1
		})
		for range 40 {
			other.did(tree.Set{Path: "/once", Version: tree.Any})
		}
		time.Sleep(5 * time.Second) // snapshots are taken, and the log behind them is dropped
		keys = append(keys, x.write(tree.Create{Path: "/a/", Sequential: true, Kind: tree.Persistent}))
		for _, n := range c.nodes {
			if n != behind {
				c.Reset(n.name, behind.name)
				c.Heal(n.name, behind.name)
			}
		}
		for i, key := range keys {
			a := x.answer(key)
			if a.Err != nil || a.Wrote == nil || a.Wrote.Outcome.Ops[0].Path != fmt.Sprintf("/a/%010d", i) {
				t.Errorf("I9: write %d: %+v", i, a)
			}
		}
		if !x.lost || len(x.events) == 0 || x.events[0].Path != "/once" || x.events[0].Kind != tree.DataChanged {
			t.Errorf("V6: lost is %v, events are %+v", x.lost, x.events)
		}
	})
}
