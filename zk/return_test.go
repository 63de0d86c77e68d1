package zk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/client"
	"holdfast/learner"
	"holdfast/test/whole"
	"holdfast/zk/jute"
)

// TestWatchesBeyondTheRing: a client with a lasting watch that was away for more changes than a node remembers, or
// while the nodes were restarted, gets its watch back. It hears nothing of what it missed (Z7), and of what comes.
func TestWatchesBeyondTheRing(t *testing.T) {
	runSetup(t, whole.Setup{Telling: learner.Telling{Changes: 16}}, func(c *world) {
		t := c.T
		s := c.Session(sdk(t, c, "sdk"), 10*time.Second)
		create := func(path string) {
			if _, err := s.Tree().Create(t.Context(), path, nil, client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		n, id, password := comes(c, "n1", 0, nil)
		asks(t, n, 1, jute.AddWatch, func(e *jute.Encoder) {
			e.String("/")
			e.Int(jute.ModeRecursive)
		})
		newest := hears(t, n)
		_ = n.Close()
		for i := range 100 {
			create(fmt.Sprint("/missed-", i))
		}
		n, _, _ = comes(c, "n2", id, password)
		asks(t, n, jute.WatchesXid, jute.SetWatches2, func(e *jute.Encoder) {
			e.Long(newest.zxid)
			for range 4 {
				e.Strings(nil)
			}
			e.Strings([]string{"/"})
		})
		if h := hears(t, n); h.xid != jute.WatchesXid || h.code != jute.OK {
			t.Errorf("bringing the watch back was answered by %+v", h)
		}
		create("/told")
		if h := hears(t, n); h.xid != jute.EventXid {
			t.Errorf("heard %+v, want an event", h)
		}
	})
}

// TestVainWatches: a client brings back watches that never fire, since its reads were answered: of the members, which
// are made at the read, and of a path that no entry can have. They cost it nothing.
func TestVainWatches(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		c.Session(sdk(t, c, "sdk"), 10*time.Second)
		n, id, password := comes(c, "n1", 0, nil)
		watched := func(xid int32, op jute.Op, path string) heard {
			asks(t, n, xid, op, func(e *jute.Encoder) {
				e.String(path)
				e.Bool(true)
			})
			return hears(t, n)
		}
		impossible := "/" + strings.Repeat("x", 5000)
		if h := watched(1, jute.GetData, "/zookeeper/config"); h.code != jute.OK {
			t.Fatalf("%+v", h)
		}
		newest := watched(2, jute.Exists, impossible)
		if newest.code != jute.NoNode {
			t.Fatalf("%+v", newest)
		}
		_ = n.Close()
		n, _, _ = comes(c, "n2", id, password)
		asks(t, n, jute.WatchesXid, jute.SetWatches, func(e *jute.Encoder) {
			e.Long(newest.zxid)
			e.Strings([]string{"/zookeeper/config"})
			e.Strings([]string{impossible, "/soon"})
			e.Strings(nil)
		})
		if h := hears(t, n); h.xid != jute.WatchesXid || h.code != jute.OK {
			t.Errorf("bringing the watches back was answered by %+v", h)
		}
		asks(t, n, 3, jute.Create, func(e *jute.Encoder) {
			e.String("/soon")
			e.Buffer(nil)
			e.ACLs([]jute.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}})
			e.Int(jute.Persistent)
		})
		if h := hears(t, n); h.xid != jute.EventXid {
			t.Errorf("heard %+v, want the event of the watch that can fire", h)
		}
	})
}

// TestAWatchOfWhatMayNotBeRead: exists tells of an entry that its client may not read, and so leaves a watch. It hears
// of the first change that it may read.
func TestAWatchOfWhatMayNotBeRead(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n1:7404")
		w, events := dial(t, c, "w", 10*time.Second, "n1:7404")
		await(t, events, zookeeper.StateHasSession)
		if err := z.AddAuth("digest", []byte("ann:secret")); err != nil {
			t.Fatal(err)
		}
		must[string](t)(z.Create("/hers", nil, 0, zookeeper.DigestACL(zookeeper.PermAll, "ann", "secret")))
		must[string](t)(w.Sync("/"))
		there, _, changed, err := w.ExistsW("/hers")
		if !there || err != nil {
			t.Fatal(there, err)
		}
		must[*zookeeper.Stat](t)(z.Set("/hers", []byte("hidden"), -1))
		must[*zookeeper.Stat](t)(z.SetACL("/hers", open, -1))
		must[string](t)(w.Sync("/"))
		select {
		case e := <-changed:
			t.Fatalf("heard %+v of what it may not read", e)
		default:
		}
		must[*zookeeper.Stat](t)(z.Set("/hers", []byte("shown"), -1))
		select {
		case e := <-changed:
			if e.Type != zookeeper.EventNodeDataChanged || e.Path != "/hers" {
				t.Errorf("%+v", e)
			}
		case <-time.After(5 * time.Second):
			t.Error("the watch heard nothing")
		}
	})
}
