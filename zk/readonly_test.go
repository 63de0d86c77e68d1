package zk_test

import (
	"io"
	"net"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/zk/jute"
)

// readOnly runs f with three nodes that are cut off from each other, and the connection of a client that has a
// read-only session of n1. heal reconnects the nodes. The tree has /a, and /big of nearly the largest size.
func readOnly(t *testing.T, f func(c *world, n net.Conn, heal func())) {
	t.Helper()
	runWith(t, func(cfg *config.Config) {
		cfg.Sessions.Local, cfg.Sessions.LocalUpgrade, cfg.ReadOnly = true, true, true
	}, func(c *world) {
		z, _ := served(c.T, c, "z", 10*time.Second, "n1:7404")
		must[string](c.T)(z.Create("/a", nil, 0, open))
		must[string](c.T)(z.Create("/big", make([]byte, 1_000_000), 0, open))
		heal := c.Apart()
		defer heal()
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			if e := entersReadOnly(c, "n1", 0, nil); e.readOnly {
				f(c, e.conn.(net.Conn), heal)
				return
			}
		}
		c.T.Fatal("no session is given")
	})
}

// reading is the body of a read without a watch.
func reading(path string) func(e *jute.Encoder) {
	return func(e *jute.Encoder) {
		e.String(path)
		e.Bool(false)
	}
}

// setting is the body of a write.
func setting(path string) func(e *jute.Encoder) {
	return func(e *jute.Encoder) {
		e.String(path)
		e.Buffer(nil)
		e.Int(-1)
	}
}

// nothing is an empty body.
func nothing(*jute.Encoder) {}

// TestReadOnlyAnswersKeepTheirOrder: a client of a read-only node is answered in the order of its requests (N-16), also
// where some wait until it has read the answers before them, and others do not. The Java client ends a connection that
// answers in another order (C-26).
func TestReadOnlyAnswersKeepTheirOrder(t *testing.T) {
	readOnly(t, func(c *world, n net.Conn, _ func()) {
		t := c.T
		const large = 12
		var wants []jute.Code
		ask := func(op jute.Op, body func(e *jute.Encoder), want jute.Code) {
			wants = append(wants, want)
			asks(t, n, int32(len(wants)), op, body)
		}
		for range large {
			ask(jute.GetData, reading("/big"), jute.OK)
		}
		ask(jute.Exists, reading("no path"), jute.NoNode)
		ask(jute.WhoAmI, nothing, jute.OK)
		ask(jute.Exists, reading("/a"), jute.OK)
		time.Sleep(time.Second) // the node has done what it does before the client reads
		for i, want := range wants {
			if h := hears(t, n); int(h.xid) != i+1 || h.code != want {
				t.Fatalf("answer %d is to request %d, with code %v; want code %v", i+1, h.xid, h.code, want)
			}
		}
	})
}

// TestReadsBehindAWriteToAReadOnlyNode: a read-only node refuses only a client's writes, and not the reads
// behind them, however many they are.
func TestReadsBehindAWriteToAReadOnlyNode(t *testing.T) {
	const rounds, reads = 3, 300
	readOnly(t, func(c *world, n net.Conn, _ func()) {
		t := c.T
		var wants []jute.Code
		for range rounds {
			wants = append(wants, jute.NotReadOnly)
			asks(t, n, int32(len(wants)), jute.SetData, setting("/a"))
			for range reads {
				wants = append(wants, jute.OK)
				asks(t, n, int32(len(wants)), jute.Exists, reading("/a"))
			}
		}
		for i, want := range wants {
			if h := hears(t, n); int(h.xid) != i+1 || h.code != want {
				t.Fatalf("answer %d is to request %d, with code %v; want code %v", i+1, h.xid, h.code, want)
			}
		}
	})
}

// TestWatchesOfAReadOnlyNode: a read-only node accepts its clients' watches, new and restored ones, and reports whether
// a watch exists. A client that restores them at the next node receives the changes since.
func TestWatchesOfAReadOnlyNode(t *testing.T) {
	typed := func(path string, kind int32) func(e *jute.Encoder) {
		return func(e *jute.Encoder) {
			e.String(path)
			e.Int(kind)
		}
	}
	bringing := func(zxid int64) func(e *jute.Encoder) {
		return func(e *jute.Encoder) {
			e.Long(zxid)
			e.Strings([]string{"/a"})
			e.Strings(nil)
			e.Strings(nil)
			e.Strings(nil)
			e.Strings([]string{"/big"})
		}
	}
	readOnly(t, func(c *world, n net.Conn, heal func()) {
		t := c.T
		newest := int64(0)
		for i, one := range []struct {
			op   jute.Op
			body func(e *jute.Encoder)
			want jute.Code
		}{
			{jute.AddWatch, typed("/", jute.ModePersistent), jute.OK},
			{jute.CheckWatches, typed("/", jute.PersistentWatch), jute.OK},
			{jute.CheckWatches, typed("/", jute.PersistentWatch), jute.OK},
			{jute.SetWatches2, bringing(1), jute.OK},
			{jute.CheckWatches, typed("/big", jute.RecursiveWatch), jute.OK},
			{jute.RemoveWatches, typed("/big", jute.RecursiveWatch), jute.OK},
			{jute.CheckWatches, typed("/big", jute.RecursiveWatch), jute.NoWatcher},
			{jute.Exists, reading("/a"), jute.OK},
		} {
			asks(t, n, int32(i+1), one.op, one.body)
			h := hears(t, n)
			for h.xid == jute.EventXid {
				h = hears(t, n)
			}
			if int(h.xid) != i+1 || h.code != one.want {
				t.Fatalf("%v, request %d, is answered by %+v, want code %v", one.op, i+1, h, one.want)
			}
			newest = max(newest, h.zxid)
		}
		heal()
		_, _ = io.ReadAll(n) // until the node is read-write again
		s := c.Session(sdk(t, c, "writer"), 10*time.Second)
		if _, err := s.Tree().Set(t.Context(), "/a", nil); err != nil {
			t.Fatal(err)
		}
		welcomed(c, "n2") // it may be read-only for some time yet
		n, _, _ = comes(c, "n2", 0, nil)
		asks(t, n, jute.WatchesXid, jute.SetWatches2, bringing(newest))
		if h := hears(t, n); h.xid != jute.EventXid {
			t.Errorf("heard %+v, want the event that was missed", h)
		}
	})
}

// TestRefusalsOfAReadOnlyNode: a read-only node refuses a sync as it does a write, whatever is wrong with the request
// at once, and goes on with the client.
func TestRefusalsOfAReadOnlyNode(t *testing.T) {
	readOnly(t, func(c *world, n net.Conn, _ func()) {
		t := c.T
		began := time.Now()
		for i, one := range []struct {
			op   jute.Op
			body func(e *jute.Encoder)
			want jute.Code
		}{
			{jute.Sync, func(e *jute.Encoder) { e.String("/a") }, jute.NotReadOnly},
			{jute.Multi, func(e *jute.Encoder) { e.MultiEnd() }, jute.NotReadOnly},
			{jute.SetData, setting("no path"), jute.NotReadOnly},
			{jute.SetData, setting("/a"), jute.NotReadOnly},
			{jute.Reconfig, func(e *jute.Encoder) {
				for range 3 {
					e.String("")
				}
				e.Long(-1)
			}, jute.NotReadOnly},
			{jute.Exists, reading("/a"), jute.OK},
		} {
			asks(t, n, int32(i+1), one.op, one.body)
			if h := hears(t, n); int(h.xid) != i+1 || h.code != one.want {
				t.Errorf("%v, request %d, is answered by %+v, want code %v", one.op, i+1, h, one.want)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the answers took %v", took)
		}
	})
}
