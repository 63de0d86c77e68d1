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

// TestWatchesBeyondTheRing: a client with a lasting watch that was away for more changes than a node keeps, or while
// the nodes were restarted, gets its watch back. It receives none of the missed changes (Z7), and all later ones.
func TestWatchesBeyondTheRing(t *testing.T) {
	runSetup(t, whole.Setup{WatchLimits: learner.WatchLimits{Changes: 16}}, func(c *world) {
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

// TestVainWatches: a client restores watches that never fire, since its reads were answered: of the members, which are
// made at the read, and of an invalid path. They do no harm.
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

// TestAWatchOfUnreadableEntries: exists answers about an entry that its client may not read, and so leaves a watch. It
// fires with the first change that the client may read.
func TestAWatchOfUnreadableEntries(t *testing.T) {
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
