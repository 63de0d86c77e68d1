package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/watch"
)

// quietWorld is a world without clients, with the dispatcher of one connection.
func quietWorld(t *testing.T, limits dispatch.Limits) (*world, *dispatch.Dispatcher, *dispatch.Conn) {
	t.Helper()
	ring := watch.RingLimits{Items: 8, Bytes: 1 << 20}
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)), limits, ring)
	return w, w.dispatchers[0], w.dispatchers[0].Open(root, func() {})
}

// set sets the data of an entry that it makes, in an entry of its own.
func (w *world) set(path string, data []byte) {
	w.index++
	at := store.At{Stamp: tree.StampAt(w.index, 1), Principals: root}
	var op tree.Op = tree.Set{Path: path, Version: tree.Any, Data: data}
	if _, exists := w.tree.Freeze().Stat(path); !exists {
		op = tree.Create{Path: path, Parents: true, Kind: tree.Persistent, Data: data}
	}
	_, changes := w.tree.Do(at, tree.Transaction{Then: []tree.Op{op}})
	w.hub.Applied(w.published(), changes, nil)
}

func (w *world) read(l *dispatch.Dispatcher, c *dispatch.Conn, key uint64, options tree.ReadOptions) *dispatch.Request {
	w.t.Helper()
	q := tree.Query{Kind: tree.GetEntry, Path: "/a", Options: options}
	p, err := l.Read(c, dispatch.Read{Key: key, Query: q, Bytes: 100, Until: w.now.Add(time.Second)})
	if err != nil {
		w.t.Fatalf("read: %v", err)
	}
	return p
}

// next receives the next message, as a text.
func (w *world) next(l *dispatch.Dispatcher, c *dispatch.Conn) string {
	for _, job := range l.Work() {
		job.Do()
	}
	s, ok := c.Next(w.now)
	switch {
	case !ok:
		return "nothing"
	case s.Quiet:
		return fmt.Sprintf("quiet %v", s.Delivered)
	case s.Lost:
		return fmt.Sprintf("lost %v", s.Stamp)
	case s.Value.Answer != nil && s.Value.Answer.Err != nil:
		return fmt.Sprintf("refused %d: %v", s.Value.Answer.Key, s.Value.Answer.Err)
	case s.Value.Answer != nil:
		return fmt.Sprintf("answer %d", s.Value.Answer.Key)
	default:
		return fmt.Sprintf("%v %s", s.Value.Event.Kind, s.Value.Event.Path)
	}
}

func (w *world) want(l *dispatch.Dispatcher, c *dispatch.Conn, want string) {
	w.t.Helper()
	if got := w.next(l, c); got != want {
		w.t.Fatalf("next is %q, want %q", got, want)
	}
}

// TestReadsWaitForMemory: G9.
func TestReadsWaitForMemory(t *testing.T) {
	limits := dispatch.DefaultLimits()
	limits.Unsent = 1000
	w, l, c := quietWorld(t, limits)
	w.set("/a", make([]byte, 5000))
	l.Pass()
	for key := range uint64(3) {
		w.read(l, c, key, tree.ReadOptions{})
	}
	if jobs := l.Work(); len(jobs) != 1 {
		t.Fatalf("%d reads run at once, want 1", len(jobs))
	} else {
		jobs[0].Do()
	}
	if c.Unsent() < 5000 {
		t.Errorf("%d bytes are unsent", c.Unsent())
	}
	for key := range uint64(3) {
		w.want(l, c, fmt.Sprintf("answer %d", key))
		l.Pass()
		if n := w.shared.Unsent.Used(); n < 5000 || n > 10_000 || len(l.Work()) > 0 {
			t.Errorf("%d bytes count as unsent while the writer has an answer of 5,000, and more than one read may run", n)
		}
		w.want(l, c, "nothing") // the writer has sent it, and looks again
		if n := w.shared.Unsent.Used(); n != 0 {
			t.Errorf("%d bytes count as unsent once all is sent", n)
		}
		l.Pass() // woken by the room
	}
}

// G9: connections that do not read their answers leave memory for the reads of others, at their own address and at any
// other. When they have used up all that an address may have, its next read waits, and runs once one of them is closed.
func TestG9StalledReadersLeaveMemory(t *testing.T) {
	w, l, _ := quietWorld(t, dispatch.DefaultLimits())
	w.set("/a", make([]byte, 1_000_000))
	l.Pass()
	from := func(address string) *dispatch.Conn {
		return l.Open(append(slices.Clone(root), tree.Principal{Scheme: tree.IP, ID: address}), func() {})
	}
	stalls := func() *dispatch.Conn {
		c := from("10.0.0.1")
		for key := range uint64(8) {
			w.read(l, c, key, tree.ReadOptions{})
		}
		for _, job := range l.Work() {
			job.Do()
		}
		return c
	}
	serves := func(address string, want bool) {
		t.Helper()
		c := from(address)
		w.read(l, c, 1, tree.ReadOptions{})
		if got := len(l.Work()) == 1; got != want {
			t.Errorf("%d bytes are unsent: a read from %s runs: %v", w.shared.Unsent.Used(), address, got)
		}
		l.Close(c)
	}
	var all []*dispatch.Conn
	for range 230 { // 5 MB each if nothing else stopped them: more than the node's room
		all = append(all, stalls())
	}
	serves("10.0.0.1", true)
	serves("10.0.0.2", true)
	for range 800 {
		all = append(all, stalls())
	}
	if n := w.shared.Unsent.Used(); n < dispatch.MaxNodeUnsent*7/10 || n > dispatch.MaxNodeUnsent*8/10 {
		t.Fatalf("one address has %d of %d bytes", n, dispatch.MaxNodeUnsent)
	}
	serves("10.0.0.1", false)
	serves("10.0.0.2", true)
	waits := from("10.0.0.1")
	w.read(l, waits, 1, tree.ReadOptions{})
	if l.Pass(); waits.Unsent() > 0 {
		t.Fatal("a read runs without room")
	}
	l.Close(all[0])
	l.Pass()
	if len(l.Work()) == 0 {
		t.Error("no read runs though there is room again")
	}
	for _, c := range append(all, waits) {
		l.Close(c)
	}
	if n := w.shared.Unsent.Used(); n != 0 {
		t.Errorf("%d bytes are left of closed connections", n)
	}
}

// TestWaitingRequestsAreBounded: G8.
func TestWaitingRequestsAreBounded(t *testing.T) {
	limits := dispatch.DefaultLimits()
	limits.Requests, limits.Queued = 3, 150
	w, l, c := quietWorld(t, limits)
	later := tree.ReadOptions{Seen: tree.StampAt(5, 1)}
	w.read(l, c, 1, later)
	if c.Full() != nil {
		t.Error("it is full after one request")
	}
	w.read(l, c, 2, later) // whatever its size, as the first one left room
	var limit *session.LimitError
	if _, err := l.Read(c, dispatch.Read{Bytes: 1}); !errors.As(err, &limit) || limit.Name != "queued_bytes" {
		t.Errorf("third read: %v", err)
	}
	full := c.Full()
	if full == nil || isClosed(full) {
		t.Error("the connection takes requests though it is full")
	}
	w.now = w.now.Add(time.Hour)
	l.Tick(w.now)
	if !isClosed(full) {
		t.Error("nobody is told of the room")
	}
	for range 3 {
		if _, err := l.Read(c, dispatch.Read{Query: tree.Query{Options: later}, Until: w.now.Add(time.Hour)}); err != nil {
			t.Errorf("read without bytes: %v", err)
		}
	}
	if _, err := l.Read(c, dispatch.Read{}); !errors.As(err, &limit) || limit.Name != "queued_requests" {
		t.Errorf("fourth read: %v", err)
	}
	full = c.Full()
	if full == nil || isClosed(full) {
		t.Error("the connection takes requests though it is full")
	}
	l.Close(c)
	if !isClosed(full) {
		t.Error("nobody is told of the room")
	}
	if n := w.shared.Queued.Used(); n != 0 {
		t.Errorf("%d bytes wait at a closed connection", n)
	}
	if _, err := l.Read(c, dispatch.Read{}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("read of a closed connection: %v", err)
	}
	if c := l.Open(root, func() {}); c != nil {
		big := dispatch.Write{Write: pending.Write{Session: 1, Body: make([]byte, 100)}}
		if err := l.Write(c, big); !errors.Is(err, session.ErrMoved) {
			t.Errorf("write of a session that is not attached: %v", err)
		}
	}
}

// TestARefusedRequestUsesNoMemory: the node's budget for requests counts the waiting ones only, whatever was refused
// (G8 request bounds). Otherwise each refusal would use some of the budget for good, and the node would in the end
// refuse everybody.
func TestARefusedRequestUsesNoMemory(t *testing.T) {
	w, _, _ := quietWorld(t, dispatch.DefaultLimits())
	w.shared.Queued = fair.NewBudget[string](150)
	l := dispatch.New(w.shared, dispatch.DefaultLimits(), func() {})
	c := l.Open(root, func() {})
	w.read(l, c, 1, tree.ReadOptions{Seen: tree.StampAt(5, 1)}) // 100 bytes
	for range 3 {
		other := l.Open(root, func() {})
		w.read(l, other, 2, tree.ReadOptions{})
		if got := w.next(l, other); !strings.Contains(got, "refused 2: ") || !strings.Contains(got, "node_queued_bytes") {
			t.Errorf("a read beyond the node's room: %s", got)
		}
		if n := w.shared.Queued.Used(); n != 100 {
			t.Errorf("%d bytes count as waiting, want the 100 that wait", n)
		}
	}
	l.Close(c)
	if n := w.shared.Queued.Used(); n != 0 {
		t.Errorf("%d bytes count as waiting, and nothing waits", n)
	}
}

// TestARefusedAdditionAddsNoWatch: watches that are added together are all there or none, and those that the connection
// had before stay (V1 kinds of watches).
func TestARefusedAdditionAddsNoWatch(t *testing.T) {
	limits := dispatch.DefaultLimits()
	limits.Watches = 250 // bytes: room for two
	w, l, c := quietWorld(t, limits)
	watches := func(key uint64, paths ...string) {
		t.Helper()
		var specs []tree.WatchSpec
		for _, path := range paths {
			specs = append(specs, tree.WatchSpec{Path: path, Kind: tree.WatchRecursive})
		}
		if err := l.AddWatches(c, dispatch.Addition{Key: key, Addition: tree.Addition{Watches: specs}}); err != nil {
			t.Fatalf("add watches: %v", err)
		}
	}
	watches(1, "/kept")
	w.want(l, c, "answer 1")
	watches(2, "/kept", "/one", "/two")
	if got := w.next(l, c); !strings.HasPrefix(got, "refused 2: ") {
		t.Fatalf("more watches than a connection may have: %q", got)
	}
	w.set("/one", nil)
	l.Pass()
	w.set("/kept", nil)
	l.Pass()
	w.want(l, c, "created /kept")
	w.want(l, c, "nothing")
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestWaitsEnd: M5, G5, G6.
func TestWaitsEnd(t *testing.T) {
	w, l, c := quietWorld(t, dispatch.DefaultLimits())
	w.set("/a", nil)
	l.Pass()
	w.read(l, c, 1, tree.ReadOptions{Seen: tree.StampAt(9, 1)})
	asked := w.read(l, c, 2, tree.ReadOptions{Linearizable: true})
	w.now = w.now.Add(time.Second - 1)
	l.Tick(w.now)
	w.want(l, c, "nothing")
	w.now = w.now.Add(1)
	l.Tick(w.now)
	got := map[string]bool{w.next(l, c): true, w.next(l, c): true}
	for key := 1; key <= 2; key++ {
		if want := fmt.Sprintf("refused %d: %v", key, session.ErrLagging); !got[want] {
			t.Errorf("got %v, want %q", got, want)
		}
	}
	l.SetReadIndex(asked, 1, nil) // late
	l.SetReadIndex(w.read(l, c, 3, tree.ReadOptions{Linearizable: true}), 0, session.ErrNoLeader)
	w.want(l, c, "refused 3: "+session.ErrNoLeader.Error())
	l.SetReadError(session.ErrReadOnly)
	w.read(l, c, 4, tree.ReadOptions{})
	w.want(l, c, "refused 4: "+session.ErrReadOnly.Error())
	w.read(l, c, 5, tree.ReadOptions{AllowStale: true})
	w.want(l, c, "answer 5")
	w.want(l, c, "nothing")
}

// TestComingBack: V4, V5 and V6.
func TestComingBack(t *testing.T) {
	w, l, c := quietWorld(t, dispatch.DefaultLimits())
	w.set("/a", nil) // entry 2
	w.set("/b", nil)
	l.Pass()
	all := []tree.WatchSpec{{Path: "/", Kind: tree.WatchRecursive}}
	add := func(key uint64, since tree.Stamp) {
		t.Helper()
		added := dispatch.Addition{Key: key, Addition: tree.Addition{Watches: all, Since: since}}
		if err := l.AddWatches(c, added); err != nil {
			t.Fatalf("add watches: %v", err)
		}
	}
	add(1, tree.StampAt(2, 1))
	w.want(l, c, "created /b")
	w.want(l, c, "answer 1")
	w.now = w.now.Add(watch.QuietAfter - 1)
	w.want(l, c, "nothing")
	w.set("/c", nil)
	l.Pass()
	w.want(l, c, "created /c")
	for range 20 { // more than the ring has
		w.set("/a", nil)
	}
	l.Pass()
	w.want(l, c, fmt.Sprintf("lost %v", watch.End(w.index)))
	w.hub.Applied(w.published0(), nil, nil)
	l.Pass()
	w.want(l, c, "nothing")
	w.now = w.now.Add(watch.QuietAfter)
	w.want(l, c, fmt.Sprintf("quiet %v", watch.End(w.index)))
	add(2, tree.StampAt(w.index+1, 1)) // the client has seen more
	w.want(l, c, "nothing")
	w.set("/d", nil)
	l.Pass()
	w.want(l, c, "created /d")
	w.want(l, c, "answer 2")
}

// published0 is the state after an entry that does nothing.
func (w *world) published0() dispatch.State {
	w.index++
	return w.published()
}

// TestVoidIsAnsweredWithItsWrite: a write and the void behind it have the same number, and one result (X6 giving up).
func TestVoidIsAnsweredWithItsWrite(t *testing.T) {
	for _, restored := range []bool{false, true} {
		w, _, _ := quietWorld(t, dispatch.DefaultLimits())
		w.shared.Writes = noWrites{}
		l := dispatch.New(w.shared, dispatch.DefaultLimits(), func() {})
		c := l.Open(root, func() {})
		l.Attach(c, 1, 1, 1)
		for key, number := range []uint64{1, 2, 1} {
			one := dispatch.Write{Key: uint64(key), Write: pending.Write{Session: 1, Attachment: 1, Number: number}}
			if err := l.Write(c, one); err != nil {
				t.Fatalf("write: %v", err)
			}
		}
		w.index++
		at := tree.StampAt(w.index, 1)
		w.kept[1] = writer{attachment: 1, results: [][]byte{result(at)}}
		if restored {
			w.hub.Restored(w.published())
		} else {
			w.hub.Applied(w.published(), nil, []pending.Outcome{
				{Session: 1, Attachment: 1, Number: 1, At: at, Result: result(at)},
			})
		}
		l.Pass()
		w.want(l, c, "answer 0")
		w.want(l, c, "answer 2")
		w.want(l, c, "nothing")
	}
}

// TestRingsComeBeforeTheState lets a dispatcher pass at the very moment at which the hub shows a state: it has all
// changes.
func TestRingsComeBeforeTheState(t *testing.T) {
	w, _, _ := quietWorld(t, dispatch.DefaultLimits())
	var l *dispatch.Dispatcher
	l = dispatch.New(w.shared, dispatch.DefaultLimits(), func() { l.Pass() })
	c := l.Open(root, func() {})
	spec := []tree.WatchSpec{{Path: "/", Kind: tree.WatchRecursive}}
	if err := l.AddWatches(c, dispatch.Addition{Key: 1, Addition: tree.Addition{Watches: spec}}); err != nil {
		t.Fatalf("add watches: %v", err)
	}
	w.want(l, c, "answer 1")
	w.set("/a", nil)
	w.want(l, c, "created /a")
	w.set("/b", nil)
	w.want(l, c, "created /b")
}

// TestRunners drives dispatchers by goroutines. While the log is applied, every connection gets all changes in their
// order, and no answer shows more than the connection has got.
func TestRunners(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ring := watch.RingLimits{Items: 1000, Bytes: 1 << 20}
		w := newWorld(t, rand.New(rand.NewPCG(1, 1)), dispatch.DefaultLimits(), ring)
		ctx, cancel := context.WithCancel(t.Context())
		var running, clients sync.WaitGroup
		for range 2 {
			r := dispatch.NewRunner(w.shared, dispatch.DefaultLimits())
			running.Go(func() { r.Run(ctx) })
			for range 2 {
				clients.Go(func() { follow(t, r) })
			}
		}
		for n := range 200 {
			w.set("/a", result(tree.Stamp(n)))
			if n%10 == 0 {
				time.Sleep(time.Millisecond) // of the bubble: all others run
			}
		}
		w.set("/end", nil)
		clients.Wait()
		cancel()
		running.Wait()
	})
}

// follow watches everything, and reads /a at each event, until /end is made.
func follow(t *testing.T, r *dispatch.Runner) {
	t.Helper()
	wake := make(chan struct{}, 1)
	var c *dispatch.Conn
	r.Do(func(l *dispatch.Dispatcher) {
		c = l.Open(root, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		spec := []tree.WatchSpec{{Path: "/", Kind: tree.WatchRecursive}}
		if err := l.AddWatches(c, dispatch.Addition{Key: 1, Addition: tree.Addition{Watches: spec}}); err != nil {
			t.Errorf("add watches: %v", err)
		}
	})
	defer r.Do(func(l *dispatch.Dispatcher) { l.Close(c) })
	var last tree.Stamp
	for {
		s, ok := c.Next(time.Now())
		switch {
		case !ok:
			<-wake
		case s.Quiet:
		case s.Value.Answer != nil:
			if a := s.Value.Answer; a.Read.Stat.Modified > max(last, tree.StampAt(2, 1)) && last > 0 || a.Stamp < last {
				t.Errorf("answer of %v shows the change of %v, and %v is the newest event", a.Stamp, a.Read.Stat.Modified, last)
			}
		case s.Value.Event.Path == "/end":
			return
		default:
			if e := s.Value.Event; last > 0 && e.Stamp.Index() != last.Index()+1 {
				t.Errorf("event of %v behind that of %v", e.Stamp, last)
			}
			last = s.Value.Event.Stamp
			r.Do(func(l *dispatch.Dispatcher) {
				if _, err := l.Read(c, dispatch.Read{Query: tree.Query{Kind: tree.GetEntry, Path: "/a"}}); err != nil {
					t.Errorf("read: %v", err)
				}
			})
		}
	}
}
