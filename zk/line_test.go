package zk

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/transport/gate"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// asked is a node's tree that notes what it is asked, and answers nothing by itself.
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

// asking returns a connection whose session is served by a tree.
func asking(of session.TreeConnection, token session.Token) *conn {
	near, _ := net.Pipe()
	c := newConn(&Server{cfg: Config{Gate: gate.New(gate.Config{})}}, near)
	c.tree, c.token = of, token
	c.line.begin(0)
	return c
}

// puts puts a request into a connection's line.
func puts(t *testing.T, c *conn, op jute.Op, body any) {
	t.Helper()
	r := &request{Request: jute.Request{Op: op, Body: body}}
	handlers[op](c, r)
	if err := c.line.add(r); err != nil {
		t.Fatal(err)
	}
}

// answers answers a request, and returns the code of the reply.
func answers(t *testing.T, c *conn, a session.TreeAnswer) jute.Code {
	t.Helper()
	reply, err := c.line.answered(&a)
	if err != nil || reply == nil {
		t.Fatalf("%+v makes the reply %v, %v", a, reply, err)
	}
	d := jute.NewDecoder(reply.Frame()[4:])
	d.Int("xid")
	d.Long("zxid")
	return jute.Code(d.Int("err"))
}

// A local session's requests go to the node one by one (Z9), also once its node is no longer read-only and a write has
// made it a session of the cluster. A write that was refused leaves its number to the next one.
func TestALocalSessionAsksOneByOne(t *testing.T) {
	node := &asked{}
	c := asking(node, session.Token{ID: 7, Local: true})
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

// refusing is a node's tree that notes what it is to refuse in its turn.
type refusing struct {
	asked

	keys []uint64
	why  error
}

func (r *refusing) Refuse(key uint64, _ session.ID, _ uint64, why error) error {
	r.keys, r.why = append(r.keys, key), why
	return nil
}

// While the node refuses all writes for want of room, a write is answered in its turn, and what was asked behind it goes
// on. With room again the next write has the next number (O5).
func TestAWriteWithoutRoomIsAnswered(t *testing.T) {
	node := &refusing{}
	c := asking(node, session.Token{ID: 7})
	set, read := jute.SetDataRequest{Path: "/a", Version: -1}, jute.WatchRequest{Path: "/a"}
	room := c.server.cfg.Gate
	room.Hold(gate.Writes, &gate.Hold{Scope: gate.OfDisk, Limit: "no room"})
	puts(t, c, jute.SetData, set)
	puts(t, c, jute.Exists, read)
	if len(node.keys) != 1 || len(node.writes) != 0 || len(node.reads) != 1 {
		t.Fatalf("%d writes, %d refusals and %d reads have begun, want 0, 1 and 1", len(node.writes), len(node.keys),
			len(node.reads))
	}
	if got := answers(t, c, session.TreeAnswer{Key: node.keys[0], Err: node.why}); got != jute.OperationTimeout {
		t.Errorf("the write is answered with %v, want %v", got, jute.OperationTimeout)
	}
	if refused := room.Refused()[gate.Writes][gate.OfDisk]; refused != 1 {
		t.Errorf("%d refused writes are counted, want 1", refused)
	}
	room.Hold(gate.Writes, nil)
	puts(t, c, jute.SetData, set)
	if len(node.writes) != 1 || node.writes[0].Write.Number != 1 {
		t.Errorf("with room the writes are %+v, want one with the number 1", node.writes)
	}
}

// checkWatches takes a watch out and puts it back. If the node does not take it back, for want of room or because it
// has become read-only, the connection ends. Without: its client waits for an event that never comes.
func TestAWatchIsNotLostByTheQuestionForIt(t *testing.T) {
	for _, why := range []error{&session.LimitError{Name: "node_queued_bytes"}, session.ErrReadOnly} {
		node := &asked{}
		c := asking(node, session.Token{ID: 7})
		puts(t, c, jute.CheckWatches, jute.TypeRequest{Path: "/a", Type: jute.PersistentWatch})
		if _, err := c.line.answered(&session.TreeAnswer{Key: node.removed[0], Removed: 1}); err != nil {
			t.Fatal(err)
		}
		if reply, err := c.line.answered(&session.TreeAnswer{Key: node.added[0], Err: why}); !errors.Is(err, why) {
			t.Errorf("a watch that is not taken back for %v: replied %v, %v; want the end of the connection", why, reply, err)
		}
	}
}

// What a node refuses for a moment, since all that waits there is too much, ends the connection (G8): its client goes
// on elsewhere. What is refused for good is answered.
func TestARefusalThatPassesIsNoAnswer(t *testing.T) {
	busy := &session.LimitError{Name: "node_queued_bytes", RetryAfter: session.BusyRetryAfter}
	full := &session.LimitError{Name: "watch_bytes_per_connection"}
	for _, op := range []jute.Op{jute.Exists, jute.AddWatch} {
		for _, why := range []error{busy, full} {
			node := &asked{}
			c := asking(node, session.Token{ID: 7})
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
			if reply, err := c.line.answered(&session.TreeAnswer{Key: key, Err: why}); !errors.Is(err, why) {
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

// A list is answered though its children change whenever a page of it is read, as of one state, and so is what is asked
// behind it.
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
			c := asking(node, session.Token{ID: 7})
			puts(t, c, one.op, one.body)
			puts(t, c, jute.Exists, jute.WatchRequest{Path: "/b"})
			var replies []string
			for len(replies) < 2 {
				if node.answered > 50 {
					t.Fatalf("after %d reads there are %d answers of 2", node.answered, len(replies))
				}
				a := node.answer()
				reply, err := c.line.answered(&a)
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

// So many writes of a connection are under way, and so large: what comes behind them waits until one is answered.
func TestWritesUnderWayAreBounded(t *testing.T) {
	for want, bytes := range map[int]int{maxWrites: 1, 3: maxWriteBytes * 3 / 10} {
		node := &refusing{}
		c := asking(node, session.Token{ID: 7})
		set := jute.SetDataRequest{Path: "/a", Data: make([]byte, bytes), Version: -1}
		for range want + 1 {
			puts(t, c, jute.SetData, set)
		}
		if got := len(node.writes); got != want {
			t.Fatalf("%d writes of %d bytes have begun, want %d", got, bytes, want)
		}
		first := node.writes[0]
		answers(t, c, session.TreeAnswer{
			Key: first.Key, Wrote: &tree.Result{Outcome: tree.Outcome{Ops: make([]tree.OpOutcome, 1)}},
		})
		if got := len(node.writes); got != want+1 {
			t.Errorf("%d writes have begun once one is answered, want %d", got, want+1)
		}
	}
}
