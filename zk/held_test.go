package zk

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// room is what a node has for requests that wait.
type room struct{ held, most int }

// holder is the tree's part of a connection: it counts what the connection holds for its node, and answers nothing by
// itself.
type holder struct {
	session.TreeConnection

	node *room
	held int
	keys []uint64
}

func (a *holder) Hold(bytes int) (crowded bool) {
	a.held += bytes
	a.node.held += bytes
	return a.node.held >= a.node.most
}

func (a *holder) Read(r session.TreeRead) error {
	a.keys = append(a.keys, r.Key)
	return nil
}

func (a *holder) AddWatches(r session.TreeAddition) error {
	a.keys = append(a.keys, r.Key)
	return nil
}

func (*holder) Full() <-chan struct{} { return nil }

func (a *holder) Next(time.Time) (session.TreeTold, bool) { return session.TreeTold{}, false }

func (a *holder) Close() { a.node.held -= a.held }

// holding returns a connection whose requests come to a node.
func holding(t *testing.T, node *room) (*conn, *holder) {
	t.Helper()
	c, _ := piped(30*time.Second, promised{left: time.Hour}, nil)
	a := &holder{node: node}
	c.tree = a
	c.line.begin(0)
	t.Cleanup(func() { c.end(errClosed) })
	return c, a
}

// exists is a read of one entry.
func exists(c *conn, bytes int) *request {
	r := &request{Request: jute.Request{Op: jute.Exists, Body: jute.WatchRequest{Path: "/"}}, bytes: bytes}
	prepareExists(c, r)
	return r
}

// watches is a request that waits for those before it, and that others wait behind.
func watches(c *conn) *request {
	r := &request{Request: jute.Request{Op: jute.AddWatch, Body: jute.TypeRequest{Path: "/"}}, bytes: 20}
	prepareAddWatch(c, r)
	return r
}

// takes offers a request, and reports whether the line takes it now.
func takes(t *testing.T, c *conn, r *request) bool {
	t.Helper()
	if c.line.full() != nil {
		return false
	}
	if err := c.line.add(r); err != nil {
		t.Fatal(err)
	}
	return true
}

// answersNewest answers the newest request of a connection.
func answersNewest(t *testing.T, c *conn, a *holder) {
	t.Helper()
	key := a.keys[len(a.keys)-1]
	stat := &tree.Answer{Kind: tree.GetStat, Exists: true}
	if _, err := c.line.answered(&session.TreeAnswer{Key: key, Stamp: 1, Read: stat}); err != nil {
		t.Fatal(err)
	}
}

// What waits in lines counts for the node, however many connections there are (G8). A client whose requests need not
// wait goes on, and room comes back with progress, and when connections end.
func TestG8LinesCountForTheNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const most, each, many = 100 << 20, 1 << 20, 200
		node := &room{most: most}
		type greedy struct {
			c *conn
			a *holder
		}
		var all []greedy
		fill := func() {
			for range many {
				c, a := holding(t, node)
				all = append(all, greedy{c, a})
				for _, r := range []*request{exists(c, 20), watches(c)} {
					if !takes(t, c, r) {
						t.Fatal("a client with little is not served")
					}
				}
				for takes(t, c, exists(c, each)) {
				}
			}
		}
		fill()
		if least := most; node.held < least || node.held > least+each+many*(20+readOverhead)+readOverhead {
			t.Errorf("%d connections hold %d bytes, want %d and one request more", many, node.held, most)
		}
		last := all[many-1]
		if last.c.line.full() == nil {
			t.Error("a connection takes more although its node has no room and it has something that waits")
		}
		ordinary, a := holding(t, node)
		for range 3 {
			if !takes(t, ordinary, exists(ordinary, 20)) {
				t.Fatal("an ordinary client is not served")
			}
		}
		if len(a.keys) != 3 || a.held != 0 {
			t.Errorf("of an ordinary client %d requests are at the node, and %d bytes wait", len(a.keys), a.held)
		}
		woken := last.c.line.full()
		answersNewest(t, last.c, last.a)
		select {
		case <-woken:
		default:
			t.Error("an answer does not wake the reader")
		}
		if last.c.line.full() != nil {
			t.Error("a connection takes nothing although nothing of it waits")
		}
		for _, one := range all {
			one.c.end(errClosed)
			one.c.end(errClosed)
		}
		if node.held != 0 {
			t.Errorf("%d bytes are held for connections that have ended", node.held)
		}
		fill()
	})
}

// A request that goes back into the line, because a list before it takes one more page, counts for the node again
// until it begins anew. So does what was read of the list.
func TestG8WhatBeginsAgainCounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, a := holding(t, &room{most: 1 << 20})
		list := &request{Request: jute.Request{Op: jute.GetChildren, Body: jute.WatchRequest{Path: "/"}}, bytes: 20}
		prepareChildren(c, list)
		behind := exists(c, 1000)
		if !takes(t, c, list) || !takes(t, c, behind) || a.held != 0 {
			t.Fatalf("%d bytes are held for requests that have begun", a.held)
		}
		page := func(key uint64, more bool) {
			read := &tree.Answer{Kind: tree.ListChildren, Children: []tree.Child{{Name: "a"}}, More: more}
			if _, err := c.line.answered(&session.TreeAnswer{Key: key, Stamp: 1, Read: read}); err != nil {
				t.Fatal(err)
			}
		}
		page(1, true)
		if want := 1000 + readOverhead + lengthBytes + len("a"); a.held != want {
			t.Errorf("%d bytes are held, want %d", a.held, want)
		}
		page(3, false)
		if len(a.keys) != 4 || a.held != 0 {
			t.Errorf("%d requests have begun, and %d bytes are held", len(a.keys), a.held)
		}
	})
}

// A request that is refused in its turn keeps nothing of what its client sent: the node does not count it.
func TestG8RefusedRequestsAreSmall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := holding(t, &room{})
		e := jute.NewFrame()
		e.Int(1)
		e.Int(int32(jute.SetData))
		e.String("no path")
		e.Buffer(make([]byte, 1000))
		e.Int(-1)
		r, err := c.requestOf(e.Frame()[headBytes:])
		if err != nil || r.Op != jute.SetData || r.Body != nil {
			t.Errorf("%v has the record %T, %v", r.Op, r.Body, err)
		}
	})
}

// TestListsThatAreGathered: the pages of a list wait until the last one is read, and count meanwhile (G8).
func TestListsThatAreGathered(t *testing.T) {
	c, a := holding(t, &room{most: 1 << 40})
	r := &request{Request: jute.Request{Op: jute.GetChildren, Body: jute.WatchRequest{Path: "/a"}}}
	prepareChildren(c, r)
	if !takes(t, c, r) {
		t.Fatal("the list is not taken")
	}
	const names, pages = 1000, 20
	page := tree.Answer{Kind: tree.ListChildren, Children: slices.Repeat([]tree.Child{{Name: "a-name"}}, names)}
	for n := range pages {
		if least := n * names * len("a-name"); a.held < least {
			t.Fatalf("after %d pages %d bytes are held, want at least %d", n, a.held, least)
		}
		page.More = n < pages-1
		reply, err := c.line.answered(&session.TreeAnswer{Key: a.keys[len(a.keys)-1], Stamp: 1, Read: &page})
		if err != nil || (reply == nil) != page.More {
			t.Fatalf("page %d: %v, %v", n, reply, err)
		}
	}
	if a.held != 0 {
		t.Errorf("%d bytes are held for a list that is answered", a.held)
	}
}

// TestManySmallThings: a request of many short paths takes many times its frame. What a connection takes ahead is
// bounded in what it takes, not in what came over the wire.
func TestManySmallThings(t *testing.T) {
	const most, paths, ops = 10 << 20, 100_000, 5_000
	setting, creates := &jute.Encoder{}, &jute.Encoder{}
	setting.Int(1)
	setting.Int(int32(jute.SetWatches2))
	setting.Long(5)
	setting.Strings(slices.Repeat([]string{"/"}, paths))
	for range 4 {
		setting.Strings(nil)
	}
	creates.Int(1)
	creates.Int(int32(jute.Multi))
	for range ops {
		creates.MultiHeader(jute.MultiHeader{Op: jute.Create})
		creates.String("/a")
		creates.Buffer(nil)
		creates.ACLs(slices.Repeat([]jute.ACL{{Perms: 1, Scheme: tree.World, ID: tree.Anyone}}, 4))
		creates.Int(0)
	}
	creates.MultiEnd()
	for name, frame := range map[string][]byte{"watches": setting.Bytes(), "creates": creates.Bytes()} {
		c, _ := holding(t, &room{most: 1 << 40})
		if !takes(t, c, watches(c)) { // what comes behind it waits
			t.Fatal("takes nothing")
		}
		before := heap()
		for taken := true; taken; {
			r, err := c.requestOf(frame)
			if err != nil {
				t.Fatal(err)
			}
			taken = takes(t, c, r)
		}
		if n := len(c.line.waiting); n == 0 {
			t.Errorf("%s: nothing waits", name)
		} else if took := heap() - before; took > most {
			t.Errorf("%s: %d requests of %d bytes take %d", name, n, len(frame), took)
		}
		runtime.KeepAlive(c)
	}
}

// heap is what is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // of a test
}
