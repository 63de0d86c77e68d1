package zk_test

import (
	"testing"
	"time"

	"holdfast/tree"
	"holdfast/zk/jute"
)

// TestMultisOfTheMostOperations: a multi of the largest number of operations is answered like a small one, also when
// its last operation is refused by the front end.
func TestMultisOfTheMostOperations(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		served(t, c, "z", 10*time.Second)
		n, _, _ := comes(c, "n1", 0, nil)
		for path, want := range map[string]jute.Code{"/a": jute.OK, "/a/.": jute.BadArguments} {
			asks(t, n, 1, jute.Multi, func(e *jute.Encoder) {
				for range jute.MaxOps - 1 {
					e.MultiHeader(jute.MultiHeader{Op: jute.Check})
					e.String("/")
					e.Int(-1)
				}
				e.MultiHeader(jute.MultiHeader{Op: jute.Create})
				e.String(path)
				e.Buffer(nil)
				e.ACLs([]jute.ACL{{Perms: int32(tree.All), Scheme: tree.World, ID: tree.Anyone}})
				e.Int(jute.Persistent)
				e.MultiEnd()
			})
			h, body := hearsAll(t, n)
			d := jute.NewDecoder(body)
			last := jute.OK
			for range jute.MaxOps {
				op, done, code := d.Int("op"), d.Bool("done"), jute.Code(d.Int("err"))
				if op == -1 {
					d.Int("code")
				} else if jute.Op(op) == jute.Create {
					d.String("path")
				}
				if last = code; done {
					t.Fatalf("%s: fewer elements than operations", path)
				}
			}
			if h.code != jute.OK || last != want || d.Err() != nil {
				t.Errorf("%s: code %v, the last element has %v, want %v: %v", path, h.code, last, want, d.Err())
			}
		}
	})
}

// TestACLsWithInvalidDigests: the hash of a digest has no colon, so ZooKeeper refuses lists with such an id.
func TestACLsWithInvalidDigests(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		served(t, c, "z", 10*time.Second)
		n, _, _ := comes(c, "n1", 0, nil)
		for id, want := range map[string]jute.Code{"a:b": jute.OK, "a:b:c": jute.InvalidACL, "a:": jute.InvalidACL} {
			asks(t, n, 1, jute.Create, func(e *jute.Encoder) {
				e.String("/a")
				e.Buffer(nil)
				e.ACLs([]jute.ACL{{Perms: int32(tree.All), Scheme: tree.Digest, ID: id}})
				e.Int(jute.PersistentSequential)
			})
			if h := hears(t, n); h.code != want {
				t.Errorf("%s: code %v, want %v", id, h.code, want)
			}
		}
	})
}
