package operations

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/zk/frames"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// room is a node's memory for waiting requests.
type room struct{ held, most int }

// holder is the tree's part of a connection: it counts the memory that the connection holds at its node, and answers
// nothing on its own.
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

func (a *holder) Next(time.Time) (session.TreeMessage, bool) { return session.TreeMessage{}, false }

func (a *holder) Close() { a.node.held -= a.held }

// holding returns a client whose requests come to a node.
func holding(t *testing.T, node *room) (*client, *holder) {
	t.Helper()
	a := &holder{node: node}
	c := serve(a, session.Token{ID: 7})
	t.Cleanup(c.queue.Stop)
	return c, a
}

// exists is a read of one entry.
func exists(c *client, bytes int) *queue.Request {
	return c.request(jute.Exists, jute.WatchRequest{Path: "/"}, bytes)
}

// watches is a request that waits for earlier requests, and that later requests wait for.
func watches(c *client) *queue.Request {
	return c.request(jute.AddWatch, jute.TypeRequest{Path: "/"}, 20)
}

// hasCapacity reports whether a client's queue takes one more request now.
func hasRoom(t *testing.T, c *client) bool {
	t.Helper()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	return c.queue.WaitForCapacity(now, time.Hour) == nil
}

// takes offers a request, and reports whether the queue takes it now.
func takes(t *testing.T, c *client, r *queue.Request) bool {
	t.Helper()
	if !hasRoom(t, c) {
		return false
	}
	if err := c.queue.Add(r); err != nil {
		t.Fatal(err)
	}
	return true
}

// answersNewest answers the newest request of a client.
func answersNewest(t *testing.T, c *client, a *holder) {
	t.Helper()
	key := a.keys[len(a.keys)-1]
	stat := &tree.Answer{Kind: tree.GetStat, Exists: true}
	if _, err := c.queue.Answered(&session.TreeAnswer{Key: key, Stamp: 1, Read: stat}); err != nil {
		t.Fatal(err)
	}
}

// Queued requests count for the node, however many connections there are (G8 request bounds). A client whose requests
// need not wait goes on, and room comes back with progress, and when connections end.
func TestG8QueuesCountForTheNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const most, each, many = 100 << 20, 1 << 20, 200
		node := &room{most: most}
		type greedy struct {
			c *client
			a *holder
		}
		var all []greedy
		fill := func() {
			for range many {
				c, a := holding(t, node)
				all = append(all, greedy{c, a})
				for _, r := range []*queue.Request{exists(c, 20), watches(c)} {
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
		if hasRoom(t, last.c) {
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
		woken := make(chan error, 1)
		go func() { woken <- last.c.queue.WaitForCapacity(t.Context(), time.Hour) }()
		synctest.Wait()
		answersNewest(t, last.c, last.a)
		synctest.Wait()
		select {
		case err := <-woken:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Fatal("an answer does not wake the reader")
		}
		if !hasRoom(t, last.c) {
			t.Error("a connection takes nothing although nothing of it waits")
		}
		for _, one := range all {
			one.c.queue.Stop()
			one.c.queue.Stop()
		}
		if node.held != 0 {
			t.Errorf("%d bytes are held for connections that have ended", node.held)
		}
		fill()
	})
}

// A request that goes back into the queue, because an earlier list needs one more page, counts for the node again until
// it is restarted. So do the names of the list.
func TestG8RestartedRequestsCount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, a := holding(t, &room{most: 1 << 20})
		list := c.request(jute.GetChildren, jute.WatchRequest{Path: "/"}, 20)
		behind := exists(c, 1000)
		if !takes(t, c, list) || !takes(t, c, behind) || a.held != 0 {
			t.Fatalf("%d bytes are held for requests that have begun", a.held)
		}
		page := func(key uint64, more bool) {
			read := &tree.Answer{Kind: tree.ListChildren, Children: []tree.Child{{Name: "a"}}, More: more}
			if _, err := c.queue.Answered(&session.TreeAnswer{Key: key, Stamp: 1, Read: read}); err != nil {
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

// A request that is refused in its turn keeps nothing of its client's bytes: the node does not count it.
func TestG8RefusedRequestsAreSmall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := holding(t, &room{})
		e := jute.NewFrame()
		e.Int(1)
		e.Int(int32(jute.SetData))
		e.String("no path")
		e.Buffer(make([]byte, 1000))
		e.Int(-1)
		r, err := c.handler.Request(e.Frame()[frames.HeadBytes:])
		if err != nil || r.Op != jute.SetData || r.Body != nil {
			t.Errorf("%v has the record %T, %v", r.Op, r.Body, err)
		}
	})
}

// TestListsThatAreGathered: the pages of a list wait until the last one is read, and count meanwhile (G8).
func TestListsThatAreGathered(t *testing.T) {
	c, a := holding(t, &room{most: 1 << 40})
	r := c.request(jute.GetChildren, jute.WatchRequest{Path: "/a"}, 0)
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
		reply, err := c.queue.Answered(&session.TreeAnswer{Key: a.keys[len(a.keys)-1], Stamp: 1, Read: &page})
		if err != nil || (reply == nil) != page.More {
			t.Fatalf("page %d: %v, %v", n, reply, err)
		}
	}
	if a.held != 0 {
		t.Errorf("%d bytes are held for a list that is answered", a.held)
	}
}

// TestManySmallThings: a request of many short paths needs many times the memory of its frame. A connection's
// read-ahead is bounded by memory, rather than by bytes on the wire.
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
		if !takes(t, c, watches(c)) { // a later request waits
			t.Fatal("takes nothing")
		}
		before := heap()
		for taken := true; taken; {
			r, err := c.handler.Request(frame)
			if err != nil {
				t.Fatal(err)
			}
			taken = takes(t, c, r)
		}
		if n := c.queue.Outstanding() - 1; n == 0 {
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
