package zk_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"holdfast/zk/jute"
)

// TestConfigIsOneEntry: every request about /zookeeper/config gets an answer about the entry that the node makes at the
// read, and no client can create or change an entry there. The answers are those of ZooKeeper 3.8.
func TestConfigIsOneEntry(t *testing.T) {
	const config, below = "/zookeeper/config", "/zookeeper/config/x"
	all := []jute.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}
	stat := strings.Repeat("00", 40) + "ffffffff" + strings.Repeat("00", 24)
	create := func(path string, flags int32) func(e *jute.Encoder) {
		return func(e *jute.Encoder) {
			e.String(path)
			e.Buffer([]byte("x"))
			e.ACLs(all)
			e.Int(flags)
		}
	}
	path := func(e *jute.Encoder) { e.String(config) }
	removing := func(e *jute.Encoder) {
		e.String(config)
		e.Int(-1)
	}
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n1:7404")
		n, _, _ := comes(c, "n1", 0, nil)
		for i, one := range []struct {
			op   jute.Op
			body func(e *jute.Encoder)
			code jute.Code
			want string
		}{
			{jute.Create, create(config, 0), jute.NodeExists, ""},
			{jute.Create, create(below, 0), jute.NoAuth, ""},
			{jute.Create, create(config+"/", 2), jute.NoAuth, ""},
			{jute.Multi, func(e *jute.Encoder) {
				e.MultiHeader(jute.MultiHeader{Op: jute.Create, Err: -1})
				create(config, 0)(e)
				e.MultiEnd()
			}, jute.OK, "ffffffff00ffffff92ffffff92" + "ffffffff01ffffffff"},
			{jute.SetData, setting(config), jute.NoAuth, ""},
			{jute.SetACL, func(e *jute.Encoder) {
				e.String(config)
				e.ACLs(all)
				e.Int(-1)
			}, jute.NoAuth, ""},
			{jute.Delete, removing, jute.BadArguments, ""},
			{jute.Exists, reading(config), jute.OK, stat},
			{jute.GetData, reading(config), jute.OK, "00000000" + stat},
			{jute.GetChildren, reading(config), jute.OK, "00000000"},
			{jute.GetChildren2, reading(config), jute.OK, "00000000" + stat},
			{jute.GetACL, path, jute.OK, "00000001" + "00000001" + "00000005776f726c64" + "00000006616e796f6e65" + stat},
			{jute.GetChildrenNumber, path, jute.OK, "00000000"},
			{jute.MultiRead, func(e *jute.Encoder) {
				e.MultiHeader(jute.MultiHeader{Op: jute.GetData, Err: -1})
				reading(config)(e)
				e.MultiHeader(jute.MultiHeader{Op: jute.GetChildren, Err: -1})
				reading(config)(e)
				e.MultiHeader(jute.MultiHeader{Op: jute.GetChildren, Err: -1})
				reading("/zookeeper")(e)
				e.MultiEnd()
			}, jute.OK, "000000040000000000" + "00000000" + stat + "000000080000000000" + "00000000" +
				"000000080000000000" + "00000001" + "0000000571756f7461" + "ffffffff01ffffffff"},
		} {
			asks(t, n, int32(i+1), one.op, one.body)
			h, body := hearsAll(t, n)
			if h.code != one.code || hex.EncodeToString(body) != one.want {
				t.Errorf("%v: %v and %x, want %v and %s", one.op, h.code, body, one.code, one.want)
			}
		}
		if names, _, err := z.Children("/zookeeper"); err != nil || len(names) != 1 {
			t.Errorf("/zookeeper has %q, %v", names, err)
		}
	})
}

// TestWatchersOfNoType: what names no type or mode of a watch is refused with ZooKeeper's code.
func TestWatchersOfNoType(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		n, _, _ := comes(c, "n1", 0, nil)
		for i, op := range []jute.Op{jute.RemoveWatches, jute.CheckWatches, jute.AddWatch} {
			asks(t, n, int32(i+1), op, func(e *jute.Encoder) {
				e.String("/")
				e.Int(9)
			})
			if h := hears(t, n); h.code != jute.MarshallingError {
				t.Errorf("%v: %v, want %v", op, h.code, jute.MarshallingError)
			}
		}
		if !alive(n) {
			t.Error("the connection has ended")
		}
	})
}

// TestWatchesThatCannotBeRead: a client whose setWatches cannot be read is refused as by ZooKeeper, and its connection
// ends. ZooKeeper goes on with the connection, and the client relies on watches that it does not have.
func TestWatchesThatCannotBeRead(t *testing.T) {
	records := map[string]func(e *jute.Encoder){
		"no record":   func(*jute.Encoder) {},
		"no vectors":  func(e *jute.Encoder) { e.Long(1) },
		"many paths":  func(e *jute.Encoder) { e.Long(1); e.Int(1 << 30) },
		"half a path": func(e *jute.Encoder) { e.Long(1); e.Int(1); e.Int(1 << 20) },
	}
	run(t, func(c *world) {
		t := c.T
		for _, op := range []jute.Op{jute.SetWatches, jute.SetWatches2} {
			for name, record := range records {
				n, id, password := comes(c, "n1", 0, nil)
				asks(t, n, -8, op, record)
				if h, want := hears(t, n), (heard{-8, -1, jute.MarshallingError}); h != want {
					t.Errorf("%v, %s: %+v, want %+v", op, name, h, want)
				}
				if alive(n) {
					t.Errorf("%v, %s: the connection goes on", op, name)
				}
				if again, came, _ := comes(c, "n2", id, password); came != id || !alive(again) {
					t.Errorf("%v, %s: the session is %v, want %v", op, name, came, id)
				}
			}
		}
	})
}
