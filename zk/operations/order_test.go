package operations

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/transport/ratelimit"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// asked is a node's tree that records requests, and answers none by itself.
type asked struct {
	session.TreeConnection

	reads  []session.TreeRead
	writes []session.TreeWrite
	// added and removed are the keys of requests that change watches.
	added, removed []uint64
}

func (a *asked) Read(r session.TreeRead) error {
	a.reads = append(a.reads, r)
	return nil
}

func (a *asked) Write(w session.TreeWrite) error {
	a.writes = append(a.writes, w)
	return nil
}

// Hold counts nothing: the node has room.
func (*asked) Hold(int) bool { return false }

func (a *asked) AddWatches(r session.TreeAddition) error {
	a.added = append(a.added, r.Key)
	return nil
}

func (a *asked) RemoveWatches(key uint64, _ []tree.WatchSpec) error {
	a.removed = append(a.removed, key)
	return nil
}

// client is a client's requests, without a connection.
type client struct {
	handler *Handler
	queue   *queue.Queue
	limiter *ratelimit.Limiter
}

// serve returns a client whose session a tree serves.
func serve(of session.TreeConnection, token session.Token) *client {
	limiter := ratelimit.New(ratelimit.Config{})
	q := queue.New(limiter, nil)
	q.Begin(of, token, 0)
	h := New(Config{
		Queue: q, Tree: of, Token: token, Counters: &Counters{}, Members: func() string { return "" },
		ReadOnly: func() bool { return false },
	})
	return &client{handler: h, queue: q, limiter: limiter}
}

// request makes a request of so many bytes.
func (c *client) request(op jute.Op, body any, bytes int) *queue.Request {
	r := &queue.Request{Request: jute.Request{Op: op, Body: body}, Bytes: bytes}
	operations[op].handle(c.handler, r)
	return r
}

// puts queues a request.
func puts(t *testing.T, c *client, op jute.Op, body any) {
	t.Helper()
	if err := c.queue.Add(c.request(op, body, 0)); err != nil {
		t.Fatal(err)
	}
}

// answers answers a request, and returns the code of the reply.
func answers(t *testing.T, c *client, a session.TreeAnswer) jute.Code {
	t.Helper()
	reply, err := c.queue.Answered(&a)
	if err != nil || reply == nil {
		t.Fatalf("%+v makes the reply %v, %v", a, reply, err)
	}
	d := jute.NewDecoder(reply.Frame()[4:])
	d.Int("xid")
	d.Long("zxid")
	return jute.Code(d.Int("err"))
}

// A local session's requests go to the node one by one (Z9 read-only), also once its node is no longer read-only and a
// write has made the session global. A refused write leaves its number to the next write.
func TestALocalSessionAsksOneByOne(t *testing.T) {
	node := &asked{}
	c := serve(node, session.Token{ID: 7, Local: true})
	set, read := jute.SetDataRequest{Path: "/a", Version: -1}, jute.WatchRequest{Path: "/a"}
	for range 3 {
		puts(t, c, jute.SetData, set)
		puts(t, c, jute.Exists, read)
		puts(t, c, jute.Exists, read)
	}
	var numbers []uint64
	refused := func(w session.TreeWrite) session.TreeAnswer {
		return session.TreeAnswer{Key: w.Key, Err: session.ErrReadOnly}
	}
	taken := func(w session.TreeWrite) session.TreeAnswer {
		outcome := tree.Outcome{Ops: []tree.OpOutcome{{}}}
		return session.TreeAnswer{Key: w.Key, Wrote: &tree.Result{Outcome: outcome}}
	}
	for round, write := range []struct {
		answer func(w session.TreeWrite) session.TreeAnswer
		want   jute.Code
	}{{refused, jute.NotReadOnly}, {taken, jute.OK}, {taken, jute.OK}} {
		if len(node.writes) != round+1 || len(node.reads) != 2*round {
			t.Fatalf("%d writes and %d reads have begun, want %d and %d", len(node.writes), len(node.reads), round+1, 2*round)
		}
		one := node.writes[round]
		numbers = append(numbers, one.Write.Number)
		if got := answers(t, c, write.answer(one)); got != write.want {
			t.Fatalf("write %d is answered with %v, want %v", round, got, write.want)
		}
		for i := range 2 {
			if len(node.writes) != round+1 || len(node.reads) != 2*round+i+1 {
				t.Fatalf("%d writes and %d reads have begun, want %d and %d", len(node.writes), len(node.reads), round+1,
					2*round+i+1)
			}
			last := node.reads[len(node.reads)-1]
			answers(t, c, session.TreeAnswer{Key: last.Key, Read: &tree.Answer{Kind: tree.GetStat}})
		}
	}
	if want := []uint64{1, 1, 2}; !slices.Equal(numbers, want) {
		t.Errorf("the writes have the numbers %d, want %d", numbers, want)
	}
}

// refusing is a node's tree that records its refusals.
type refusing struct {
	asked

	keys []uint64
	why  error
}

func (r *refusing) Refuse(key uint64, _ session.ID, _ uint64, why error) error {
	r.keys, r.why = append(r.keys, key), why
	return nil
}

// While the node refuses all writes for want of room, a write is answered in its turn, and what was asked behind it
// goes on. With room again the next write has the next number (O5 full disks).
func TestAWriteWithoutRoomIsAnswered(t *testing.T) {
	node := &refusing{}
	c := serve(node, session.Token{ID: 7})
	set, read := jute.SetDataRequest{Path: "/a", Version: -1}, jute.WatchRequest{Path: "/a"}
	room := c.limiter
	room.Hold(ratelimit.Writes, &ratelimit.Hold{Scope: ratelimit.OfDisk, Limit: "no room"})
	puts(t, c, jute.SetData, set)
	puts(t, c, jute.Exists, read)
	if len(node.keys) != 1 || len(node.writes) != 0 || len(node.reads) != 1 {
		t.Fatalf("%d writes, %d refusals and %d reads have begun, want 0, 1 and 1", len(node.writes), len(node.keys),
			len(node.reads))
	}
	if got := answers(t, c, session.TreeAnswer{Key: node.keys[0], Err: node.why}); got != jute.OperationTimeout {
		t.Errorf("the write is answered with %v, want %v", got, jute.OperationTimeout)
	}
	if refused := room.Refused()[ratelimit.Writes][ratelimit.OfDisk]; refused != 1 {
		t.Errorf("%d refused writes are counted, want 1", refused)
	}
	room.Hold(ratelimit.Writes, nil)
	puts(t, c, jute.SetData, set)
	if len(node.writes) != 1 || node.writes[0].Write.Number != 1 {
		t.Errorf("with room the writes are %+v, want one with the number 1", node.writes)
	}
}

// checkWatches removes a watch and adds it again. If the node does not accept it again, for want of room or because it
// has become read-only, the connection ends. Without: its client waits for an event that never comes.
func TestAWatchIsNotLostByTheQuestionForIt(t *testing.T) {
	for _, why := range []error{&session.LimitError{Name: "node_queued_bytes"}, session.ErrReadOnly} {
		node := &asked{}
		c := serve(node, session.Token{ID: 7})
		puts(t, c, jute.CheckWatches, jute.TypeRequest{Path: "/a", Type: jute.PersistentWatch})
		if _, err := c.queue.Answered(&session.TreeAnswer{Key: node.removed[0], Removed: 1}); err != nil {
			t.Fatal(err)
		}
		if reply, err := c.queue.Answered(&session.TreeAnswer{Key: node.added[0], Err: why}); !errors.Is(err, why) {
			t.Errorf("a watch that is not taken back for %v: replied %v, %v; want the end of the connection", why, reply, err)
		}
	}
}

// A temporary refusal of a node, because of too many waiting requests, ends the connection (G8 request bounds): its
// client continues elsewhere. A final refusal is answered.
func TestARefusalThatPassesIsNoAnswer(t *testing.T) {
	busy := &session.LimitError{Name: "node_queued_bytes", RetryAfter: session.BusyRetryAfter}
	full := &session.LimitError{Name: "watch_bytes_per_connection"}
	for _, op := range []jute.Op{jute.Exists, jute.AddWatch} {
		for _, why := range []error{busy, full} {
			node := &asked{}
			c := serve(node, session.Token{ID: 7})
			key := uint64(1)
			if op == jute.Exists {
				puts(t, c, op, jute.WatchRequest{Path: "/a", Watch: true})
			} else {
				puts(t, c, op, jute.TypeRequest{Path: "/a"})
			}
			if errors.Is(why, full) {
				if got := answers(t, c, session.TreeAnswer{Key: key, Err: why}); got != jute.Throttled {
					t.Errorf("%v: %v is answered with %v", op, why, got)
				}
				continue
			}
			if reply, err := c.queue.Answered(&session.TreeAnswer{Key: key, Err: why}); !errors.Is(err, why) {
				t.Errorf("%v: %v makes the reply %v, %v: want the end of the connection", op, why, reply, err)
			}
		}
	}
}

// churning answers the reads of an entry whose children change before each read. It has some pages of them.
type churning struct {
	asked

	// changes counts those of the children, answered the reads that were answered.
	changes, answered int
}

const churningPages = 3

// answer answers the oldest read that was not answered.
func (n *churning) answer() session.TreeAnswer {
	one := n.reads[n.answered]
	n.answered++
	q := one.Query
	a := tree.Answer{Kind: q.Kind}
	if n.changes++; q.Kind != tree.ListChildren {
		return session.TreeAnswer{Key: one.Key, Read: &a}
	}
	a.Stat.ChildrenModified = tree.Stamp(n.changes)
	for i := range churningPages {
		name := fmt.Sprintf("%d-as-of-%d", i, n.changes)
		switch {
		case q.Whole:
			a.Paths = append(a.Paths, name)
		case q.After < name:
			a.Children = []tree.Child{{Name: name}}
			a.More = i < churningPages-1
			return session.TreeAnswer{Key: one.Key, Read: &a}
		}
	}
	return session.TreeAnswer{Key: one.Key, Read: &a}
}

// A list is answered from one state, though its children change whenever a page is read, and so are later requests.
func TestAListThatAlwaysChangesIsAnswered(t *testing.T) {
	list := func(watch bool) jute.WatchRequest { return jute.WatchRequest{Path: "/a", Watch: watch} }
	for name, one := range map[string]struct {
		op   jute.Op
		body any
	}{
		"alone":        {jute.GetChildren, list(false)},
		"with a watch": {jute.GetChildren2, list(true)},
		"in a multiRead": {jute.MultiRead, jute.MultiRequest{Ops: []jute.Request{
			{Op: jute.GetChildren, Body: list(false)}, {Op: jute.GetChildren, Body: list(false)},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &churning{}
			c := serve(node, session.Token{ID: 7})
			puts(t, c, one.op, one.body)
			puts(t, c, jute.Exists, jute.WatchRequest{Path: "/b"})
			var replies []string
			for len(replies) < 2 {
				if node.answered > 50 {
					t.Fatalf("after %d reads there are %d answers of 2", node.answered, len(replies))
				}
				a := node.answer()
				reply, err := c.queue.Answered(&a)
				if err != nil {
					t.Fatal(err)
				}
				if reply != nil {
					replies = append(replies, string(reply.Frame()))
				}
			}
			as := regexp.MustCompile(`\d-as-of-\d+`).FindAllString(replies[0], -1)
			if len(as) == 0 || len(as)%churningPages != 0 {
				t.Fatalf("the names are %q", as)
			}
			for i, name := range as {
				_, state, _ := strings.Cut(name, "-")
				if _, first, _ := strings.Cut(as[i-i%churningPages], "-"); state != first {
					t.Errorf("a list has %q", as[i-i%churningPages:i+1])
				}
			}
		})
	}
}
