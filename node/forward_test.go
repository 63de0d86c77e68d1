package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/tree/form"
)

// writesInHand are the writes of a node that have no result yet. As rule X7 says, the node sends each of them once, and
// all of them again on each new stream.
type writesInHand struct {
	mu      sync.Mutex
	node    *testNode
	session session.Session
	all     []session.ForwardedWrite
	// sent is how many of all the open stream has sent, wake signals more.
	sent    int
	wake    chan struct{}
	began   int
	refused []session.WriteRefusal
	ended   []error
}

// StreamWanted reports whether there are writes, or a test wants a stream.
func (w *writesInHand) StreamWanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) > 0
}

func (w *writesInHand) Wake() <-chan struct{} { return w.wake }

// Next returns the writes that the stream has not sent yet.
func (w *writesInHand) Next() (m session.ForwardMessage, more bool, again time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.all)-w.sent, session.MaxPeerBatch)
	m.Writes = w.all[w.sent : w.sent+n]
	w.sent += n
	return m, n > 0, again
}

func (w *writesInHand) ForwardBegan() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began++
	w.sent = 0
}

func (w *writesInHand) WritesRefused(all []session.WriteRefusal) {
	w.mu.Lock()
	w.refused = append(w.refused, all...)
	w.mu.Unlock()
}

func (w *writesInHand) ForwardEnded(err error) {
	w.mu.Lock()
	w.ended = append(w.ended, err)
	w.mu.Unlock()
}

// take adds writes to those in hand.
func (w *writesInHand) take(all ...session.ForwardedWrite) {
	w.mu.Lock()
	w.all = append(w.all, all...)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// drop forgets all writes in hand.
func (w *writesInHand) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all, w.sent = nil, 0
}

// creating returns a session's write that makes an entry.
func creating(t *testing.T, s session.Session, number uint64, path string) session.ForwardedWrite {
	t.Helper()
	encoded, err := form.AppendWrite(nil, tree.NumberedWrite{
		Session: uint64(s.ID), Attachment: s.Attachment, Number: number,
		Transaction: tree.Transaction{Then: []tree.Op{tree.Create{Path: path, Kind: tree.Persistent}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return session.ForwardedWrite{Command: encoded, Weight: 1, Session: s.ID, Number: number}
}

// has reports whether all nodes that run have the entries.
func has(nodes []*testNode, paths ...string) bool {
	for _, n := range nodes {
		for _, path := range paths {
			if _, ok := n.view.Tree().Root.Stat(path); !ok {
				return false
			}
		}
	}
	return true
}

// forwardingCluster is a cluster with a tree whose nodes have writes in hand, and a session for each node.
func forwardingCluster(t *testing.T) (*testCluster, *testNode, []*writesInHand) {
	t.Helper()
	c := newTestCluster(t, 0, nil)
	c.add(3)
	var all []*writesInHand
	for _, n := range c.nodes {
		w := &writesInHand{node: n, wake: make(chan struct{}, 1)}
		n.writes, all = w, append(all, w)
	}
	for _, n := range c.nodes {
		c.start(n)
	}
	leads := c.leader(within)
	c.founded()
	for i, n := range c.nodes {
		ready := func() bool { return n.server.Ready() == nil }
		c.eventually("a node that serves", within, ready)
		all[i].session = c.withInstance(n)
	}
	return c, leads, all
}

// another returns what a node has in hand that does not lead.
func another(all []*writesInHand, leads *testNode) *writesInHand {
	if all[0].node == leads {
		return all[1]
	}
	return all[0]
}

// withInstance opens a session that may write (X5 the opener's instance).
func (c *testCluster) withInstance(n *testNode) session.Session {
	c.t.Helper()
	conn, err := n.server.Connect(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.opens++
	g, err := conn.Open(c.t.Context(), session.OpenRequest{
		RequestID: session.RequestID{c.opens}, Spec: session.Spec{Timeout: 40 * time.Second},
		MS: session.MS(time.Now()),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	g, err = conn.Resume(c.t.Context(), session.ResumeRequest{Token: g.Token, Instance: 7, Attempt: 1})
	if err != nil {
		c.t.Fatal(err)
	}
	return g.Session
}

// W1: writes of every node, the leader's own too, reach the log in their order, and all nodes apply them.
func TestWritesOfAllNodesAreApplied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _, writes := forwardingCluster(t)
		defer c.stop()
		var paths []string
		for i, w := range writes {
			parent := fmt.Sprintf("/n%d", i+1)
			paths = append(paths, parent)
			w.take(creating(t, w.session, 1, parent))
			for n := uint64(2); n < 100; n++ {
				path := fmt.Sprintf("%s/%d", parent, n)
				paths = append(paths, path)
				w.take(creating(t, w.session, n, path))
			}
		}
		c.eventually("all entries", within, func() bool { return has(c.nodes, paths...) })
		c.agree(within)
		for i, w := range writes {
			if len(w.refused) > 0 || w.began != 1 {
				t.Errorf("node %d: %d refusals, %d streams, want none and one", i+1, len(w.refused), w.began)
			}
		}
	})
}

// W4, X2: writes in hand survive the leader: they are sent to the next one, and take effect once.
func TestWritesFindTheNextLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, leads, writes := forwardingCluster(t)
		defer c.stop()
		w := another(writes, leads)
		w.take(creating(t, w.session, 1, "/a"))
		c.eventually("the first entry", within, func() bool { return has(c.nodes, "/a") })
		if err := c.end(leads); err != nil {
			t.Fatal(err)
		}
		w.take(creating(t, w.session, 2, "/b"), creating(t, w.session, 3, "/c"))
		rest := c.others(leads)
		c.eventually("the entries under the next leader", time.Minute, func() bool { return has(rest, "/a", "/b", "/c") })
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.began < 2 || len(w.ended) < 1 {
			t.Errorf("%d streams began, %d ended, want two and one", w.began, len(w.ended))
		}
	})
}

// A write that the replicas could not read does not get into the log: its stream ends.
func TestABadWriteEndsItsStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, leads, writes := forwardingCluster(t)
		defer c.stop()
		w := another(writes, leads)
		bad := creating(t, w.session, 1, "/bad")
		bad.Command = bad.Command[:len(bad.Command)-1]
		before := leads.view.LastIndex()
		w.take(bad)
		c.eventually("the end of the stream", within, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.ended) >= 1
		})
		w.drop()
		if after := leads.view.LastIndex(); after != before {
			t.Errorf("the log went from %d to %d", before, after)
		}
		w.take(creating(t, w.session, 1, "/good"))
		c.eventually("a good write", within, func() bool { return has(c.nodes, "/good") })
	})
}
