package zk_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/zk/jute"
)

// pipelined sends requests at once, and returns the records of their answers. They come in the order of the requests,
// with zxids that do not fall.
func pipelined(t *testing.T, n net.Conn, requests []jute.Request, newest *int64) (answers []*jute.Decoder) {
	t.Helper()
	var all []byte
	for i, r := range requests {
		e := jute.NewFrame()
		e.Int(int32(i + 1))
		e.Int(int32(r.Op))
		b := r.Body.([]byte)
		e.Append(b)
		all = append(all, e.Frame()...)
	}
	if _, err := n.Write(all); err != nil {
		t.Fatal(err)
	}
	for i, r := range requests {
		head := make([]byte, 4)
		if _, err := io.ReadFull(n, head); err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(n, frame); err != nil {
			t.Fatal(err)
		}
		d := jute.NewDecoder(frame)
		xid, zxid, code := d.Int("xid"), d.Long("zxid"), jute.Code(d.Int("err"))
		if int(xid) != i+1 || code != jute.OK || zxid < *newest {
			t.Fatalf("answer %d, to %v, has xid %d, code %v and zxid %#x after %#x", i+1, r.Op, xid, code, zxid, *newest)
		}
		*newest = zxid
		answers = append(answers, d)
	}
	return answers
}

// TestListsDoNotWaitForOneAnother: lists and other reads go to the node without waiting for earlier lists. A list of
// several pages is whole all the same, and answers keep their order, while children are created.
func TestListsDoNotWaitForOneAnother(t *testing.T) {
	const many, few, rounds, asked = 2_500, 3, 20, 40
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second)
		for _, path := range []string{"/many", "/few", "/x"} {
			must[string](t)(z.Create(path, nil, 0, open))
		}
		children(t, z, "/many", many)
		children(t, z, "/few", few)
		n := knock(c, "n1:7404")
		_, _ = n.Write(connecting(0, nil))
		connected(t, n)
		made := make(chan int, rounds)
		var newest int64
		for round := range rounds {
			go func() { // while the lists are read
				_, err := z.Create(fmt.Sprintf("/many/new-%d", round), nil, 0, open)
				if err != nil {
					t.Error(err)
				}
				made <- 1
			}()
			read := func(op jute.Op, path string) jute.Request {
				var e jute.Encoder
				e.String(path)
				e.Bool(false)
				return jute.Request{Op: op, Body: e.Bytes()}
			}
			var set jute.Encoder
			set.String("/x")
			set.Buffer(fmt.Append(nil, round))
			set.Int(-1)
			requests := []jute.Request{
				read(jute.GetChildren, "/many"), read(jute.GetData, "/x"), read(jute.GetChildren, "/few"),
				read(jute.GetChildren, "/many"), read(jute.Exists, "/x"),
				{Op: jute.SetData, Body: set.Bytes()},
				read(jute.GetData, "/x"),
			}
			answers := pipelined(t, n, requests, &newest)
			<-made
			for at, want := range map[int]int{0: many + round, 2: few, 3: many + round} {
				names := answers[at].Strings("children")
				slices.Sort(names)
				if got := len(slices.Compact(names)); got < want || got > want+1 {
					t.Fatalf("a list of %d names, want %d or one more", got, want)
				}
			}
			if data := string(answers[6].Buffer("data")); data != fmt.Sprint(round) {
				t.Fatalf("read %q behind a set of %d", data, round)
			}
			pipelined(t, n, slices.Repeat([]jute.Request{read(jute.GetChildren, "/few")}, asked), &newest)
		}
	})
}

// TestMultiReadRefusesExcessElements: a client that asks for more than fits into an answer learns which elements are
// missing, and asks for those again.
func TestMultiReadRefusesExcessElements(t *testing.T) {
	const size, many, fit = 1_000_000, 6, 4
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n1:7404")
		must[string](t)(z.Create("/big", make([]byte, size), 0, open))
		n := knock(c, "n1:7404")
		_, _ = n.Write(connecting(0, nil))
		connected(t, n)
		var newest int64
		for left := many; left > 0; {
			var e jute.Encoder
			for range left {
				e.MultiHeader(jute.MultiHeader{Op: jute.GetData, Err: -1})
				e.String("/big")
				e.Bool(false)
			}
			e.MultiEnd()
			asked, got := left, 0
			d := pipelined(t, n, []jute.Request{{Op: jute.MultiRead, Body: e.Bytes()}}, &newest)[0]
			for range asked {
				if op, _, code := jute.Op(d.Int("op")), d.Bool("done"), jute.Code(d.Int("err")); op == jute.GetData {
					if data := d.Buffer("data"); len(data) != size {
						t.Fatalf("element %d has %d bytes", got, len(data))
					}
					for range 17 {
						d.Int("stat")
					}
					got++
				} else if d.Int("code"); code != jute.Throttled {
					t.Fatalf("element %d is answered with %v", got, code)
				}
			}
			if left -= got; got != min(asked, fit) || d.Err() != nil {
				t.Fatalf("%d of %d elements are answered, want %d: %v", got, asked, min(asked, fit), d.Err())
			}
		}
	})
}

// children makes children of an entry.
func children(t *testing.T, z *zookeeper.Conn, path string, n int) {
	t.Helper()
	for n > 0 {
		ops := make([]any, min(n, 100))
		for i := range ops {
			ops[i] = &zookeeper.CreateRequest{Path: path + "/c-", Acl: open, Flags: zookeeper.FlagSequence}
		}
		if _, err := z.Multi(ops...); err != nil {
			t.Fatal(err)
		}
		n -= len(ops)
	}
}
