package queue

import (
	"testing"

	"holdfast/session"
	"holdfast/transport/ratelimit"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// node is a tree that records writes, and answers none by itself.
type node struct{ writes []session.TreeWrite }

func (n *node) Write(w session.TreeWrite) error {
	n.writes = append(n.writes, w)
	return nil
}

func (*node) Refuse(uint64, session.ID, uint64, error) error { return nil }
func (*node) Full() <-chan struct{}                          { return nil }
func (*node) Hold(int) bool                                  { return false }

// The number and the bytes of a connection's writes in flight are bounded: the next write waits until one is answered.
func TestWritesInFlightAreBounded(t *testing.T) {
	for want, bytes := range map[int]int{maxWrites: 1, 3: maxWriteBytes * 3 / 10} {
		n := &node{}
		q := New(ratelimit.New(ratelimit.Config{}), nil)
		q.Begin(n, session.Token{ID: 7}, 0)
		for range want + 1 {
			x := tree.Transaction{Then: []tree.Op{tree.Set{Path: "/a", Data: make([]byte, bytes), Version: -1}}}
			reply := func(*session.TreeAnswer) (*jute.Encoder, *Step, error) { return jute.Reply(1, 1, jute.OK), nil, nil }
			if err := q.Add(&Request{Write: &x, Reply: reply}); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(n.writes); got != want {
			t.Fatalf("%d writes of %d bytes are in flight, want %d", got, bytes, want)
		}
		if _, err := q.Answered(&session.TreeAnswer{Key: n.writes[0].Key}); err != nil {
			t.Fatal(err)
		}
		if got := len(n.writes); got != want+1 {
			t.Errorf("%d writes were sent once one is answered, want %d", got, want+1)
		}
	}
}
