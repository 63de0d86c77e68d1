package node

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// treeClient is a client of one node's tree, as the port is one.
type treeClient struct {
	t       *testing.T
	conn    session.Connection
	tree    session.TreeConnection
	news    chan struct{}
	session session.Session
	token   session.Token
	key     uint64
	number  uint64
	events  []tree.Event
	told    tree.Stamp
	lost    bool
}

// noEvents is a client that hears of no sessions.
type noEvents struct{}

func (noEvents) Gone(session.Certificate)                {}
func (noEvents) Moved(session.ID, uint64, uint64)        {}
func (noEvents) MovedLocally(session.ID, uint64, uint64) {}
func (noEvents) Jeopardy(time.Time, []string)            {}
func (noEvents) JeopardyEnded()                          {}
func (noEvents) Draining(*session.DrainingError)         {}
func (noEvents) DrainingEnded()                          {}
func (noEvents) DrainTimeout()                           {}

// treeClient connects to a node and opens a session there.
func (c *testCluster) treeClient(n *testNode) *treeClient {
	c.t.Helper()
	return c.treeClientOf(n, session.OpenRequest{Spec: session.Spec{Timeout: 40 * time.Second}, Instance: 7})
}

// treeClientOf is treeClient for a session of any kind.
func (c *testCluster) treeClientOf(n *testNode, o session.OpenRequest) *treeClient {
	c.t.Helper()
	x := &treeClient{t: c.t, news: make(chan struct{}, 1)}
	var err error
	if x.conn, err = n.server.Connect(noEvents{}); err != nil {
		c.t.Fatal(err)
	}
	c.opens++
	o.RequestID, o.MS = session.RequestID{c.opens}, session.MS(time.Now())
	g, err := x.conn.Open(c.t.Context(), o)
	if err != nil {
		c.t.Fatal(err)
	}
	x.session, x.token = g.Session, g.Token
	x.tree = x.conn.Tree([]tree.Principal{{Scheme: tree.Super}}, func() {
		select {
		case x.news <- struct{}{}:
		default:
		}
	})
	return x
}

func (x *treeClient) close() {
	x.tree.Close()
	x.conn.Disconnect()
}

// next returns the next thing that the client is told, within a bound.
func (x *treeClient) next() session.TreeMessage {
	x.t.Helper()
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		told, ok := x.tree.Next(time.Now())
		if ok {
			if told.Delivered < x.told {
				x.t.Errorf("I13: told falls from %v to %v", x.told, told.Delivered)
			}
			x.told = told.Delivered
			x.lost = x.lost || told.Lost
			x.events = append(x.events, told.Events...)
			return told
		}
		select {
		case <-x.news:
		case <-over.C:
			x.t.Fatal("nothing is told")
		}
	}
}

// answer returns the next answer.
func (x *treeClient) answer(key uint64) *session.TreeAnswer {
	x.t.Helper()
	for {
		told := x.next()
		if told.Answer == nil {
			continue
		}
		if told.Answer.Key != key {
			x.t.Fatalf("answer to request %d, want %d", told.Answer.Key, key)
		}
		return told.Answer
	}
}

// write asks for a write with the next number.
func (x *treeClient) write(ops ...tree.Op) uint64 {
	x.t.Helper()
	x.key++
	x.number++
	err := x.tree.Write(session.TreeWrite{Key: x.key, Write: tree.NumberedWrite{
		Session: uint64(x.session.ID), Number: x.number, Transaction: tree.Transaction{Then: ops},
	}})
	if err != nil {
		x.t.Fatalf("write %d: %v", x.number, err)
	}
	return x.key
}

// did writes, and wants every operation to take effect.
func (x *treeClient) did(ops ...tree.Op) *session.TreeAnswer {
	x.t.Helper()
	a := x.answer(x.write(ops...))
	if a.Err != nil || a.Wrote == nil || a.Wrote.Outcome.Refused != nil {
		x.t.Fatalf("write %d: %+v", x.number, a)
	}
	return a
}

// read asks for a read.
func (x *treeClient) read(q tree.Query) *session.TreeAnswer {
	x.t.Helper()
	x.key++
	if err := x.tree.Read(session.TreeRead{Key: x.key, Query: q, Bytes: 100}); err != nil {
		x.t.Fatalf("read: %v", err)
	}
	return x.answer(x.key)
}
