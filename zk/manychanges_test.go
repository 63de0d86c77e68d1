package zk_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/learner"
	"holdfast/test/whole"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// next reads an answer or an event, with the path of that. The error is the end of the connection.
func next(n net.Conn) (h heard, path string, err error) {
	_ = n.SetReadDeadline(time.Now().Add(time.Minute))
	head := make([]byte, 4)
	if _, err = io.ReadFull(n, head); err != nil {
		return h, "", err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head))
	if _, err = io.ReadFull(n, frame); err != nil {
		return h, "", err
	}
	d := jute.NewDecoder(frame)
	h = heard{d.Int("xid"), d.Long("zxid"), jute.Code(d.Int("err"))}
	if h.xid == jute.EventXid {
		d.Int("kind")
		d.Int("state")
		path = d.String("path")
	}
	return h, path, d.Err()
}

// TestMoreChangesThanMayBeUnsent: a client with a lasting watch receives more changes than may be unsent for a
// connection (V6 LOST), each once: missed changes, and changes of one transaction, though it has to reconnect once for
// them. Without: it is disconnected at each return, for as long as the ring has them.
func TestMoreChangesThanMayBeUnsent(t *testing.T) {
	const unsent, many, inOne = 16, 70, 50
	for name, away := range map[string]bool{"while it is there": false, "while it is away": true} {
		t.Run(name, func(t *testing.T) {
			runSetup(t, whole.Setup{WatchLimits: learner.WatchLimits{Unsent: unsent}}, func(c *world) {
				t := c.T
				s := c.Session(sdk(t, c, "sdk"), 10*time.Second)
				n, id, password := comes(c, "n1", 0, nil)
				asks(t, n, 1, jute.AddWatch, func(e *jute.Encoder) {
					e.String("/")
					e.Int(jute.ModeRecursive)
				})
				newest := hears(t, n)
				back := func() {
					_ = n.Close()
					n, _, _ = comes(c, "n2", id, password)
					asks(t, n, jute.WatchesXid, jute.SetWatches2, func(e *jute.Encoder) {
						e.Long(newest.zxid)
						for range 4 {
							e.Strings(nil)
						}
						e.Strings([]string{"/"})
					})
				}
				if away {
					_ = n.Close()
				}
				var ops []tree.Op
				for i := range inOne {
					ops = append(ops, tree.Create{Path: fmt.Sprint("/", i), Kind: tree.Ephemeral})
				}
				must[client.Transacted](t)(s.Tree().Transact(t.Context(), tree.Transaction{Then: ops}))
				for i := inOne; i < many; i++ {
					must[client.Created](t)(s.Tree().Create(t.Context(), fmt.Sprint("/", i), nil, client.CreateOptions{}))
				}
				if !away {
					if h, path, err := next(n); !errors.Is(err, io.EOF) {
						t.Fatalf("%+v %s %v: want the end of the connection", h, path, err)
					}
				}
				back()
				told := map[string]int{}
				for {
					h, path, err := next(n)
					if err != nil {
						t.Fatalf("%v, after %d events", err, len(told))
					}
					if h.xid == jute.WatchesXid {
						break
					}
					told[path]++
				}
				for i := range many {
					if path := fmt.Sprint("/", i); told[path] != 1 {
						t.Fatalf("%d events of %s, of %d paths", told[path], path, len(told))
					}
				}
				must[client.Created](t)(s.Tree().Create(t.Context(), "/later", nil, client.CreateOptions{}))
				if _, path, err := next(n); path != "/later" || err != nil {
					t.Errorf("heard of %q, %v", path, err)
				}
			})
		})
	}
}
