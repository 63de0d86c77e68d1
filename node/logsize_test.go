package node

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// W7 of the tree: whatever is written, cut off and snapshotted, a snapshot is due after the bound of bytes, and as many
// entries stay behind it as fit into the bound, to one part in a hundred. What is kept for that is bounded.
func TestW7SizesAreThoseOfTheEntries(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const bound, most = 1 << 20, 1 << 30
	s := &logSize{bound: bound}
	var sizes []int // of the entries from the first on
	sum := func(from uint64) (bytes int) {
		for _, size := range sizes[from:] {
			bytes += size
		}
		return bytes
	}
	snapshot, seen := uint64(0), map[string]int{}
	for range 20_000 {
		at := len(sizes)
		if random.IntN(1000) == 0 && at > 3 && uint64(at) > snapshot+3 { // a new leader has other entries
			at -= random.IntN(3)
		}
		size := random.IntN(1 + []int{100, 100, 5000, 100_000}[random.IntN(4)])
		sizes = append(sizes[:at], size)
		s.stored([]*raft.Log{{Index: uint64(at + 1), Data: make([]byte, size)}})
		behind := sum(snapshot)
		if got := s.due(); got && behind < bound*98/100 || !got && behind > bound*103/100 {
			t.Fatalf("%d bytes behind the snapshot: due %v, bound %d", behind, got, bound)
		}
		if !s.due() || random.IntN(20) > 0 { // some snapshots come late
			continue
		}
		snapshot = uint64(len(sizes) - random.IntN(2))
		stay := s.completed(snapshot, most)
		if stay == most {
			seen["all"]++
			continue
		}
		seen["some"]++
		if bytes := sum(uint64(len(sizes)) - stay); bytes > bound*101/100 || bytes < bound-bound/100-100_000 {
			t.Fatalf("%d entries with %d bytes stay, bound %d", stay, bytes, bound)
		}
		if len(s.marks) > 2*marksOfLog+2 {
			t.Fatalf("%d marks are kept", len(s.marks))
		}
	}
	if seen["some"] < 10 {
		t.Errorf("snapshots: %v", seen)
	}
}

// W7 of the tree: at its start a node counts the entries behind its newest snapshot, which Raft reads in their order.
func TestW7SizesAfterAStart(t *testing.T) {
	s := &logSize{bound: 1000}
	s.begins(5)
	s.read(&raft.Log{Index: 9, Data: make([]byte, 700)}) // Raft reads the last one first
	for i := uint64(6); i < 9; i++ {
		s.read(&raft.Log{Index: i, Data: make([]byte, 400)})
		s.read(&raft.Log{Index: i, Data: make([]byte, 400)})
		if got, want := s.due(), i == 8; got != want {
			t.Errorf("after entry %d: due %v, want %v", i, got, want)
		}
	}
	if got := s.completed(8, 77); got != 2 {
		t.Errorf("%d entries stay, want 2", got)
	}
	if s.due() {
		t.Error("due at once after a snapshot")
	}
	if got := (&logSize{bound: 1000}).completed(8, 77); got != 77 {
		t.Errorf("of unknown entries %d stay, want all 77", got)
	}
}

// W7 of the tree: a node takes a snapshot after so many bytes of log, long before the number of entries demands one,
// and keeps no more bytes behind it. A follower that was away comes back from the snapshot. A node that starts again
// goes on counting.
func TestW7LargeLogsAreCut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const bound = 100_000
		c := newTestCluster(t, 0, func(cfg *config.Config) { cfg.Tuning.LogBytes = bound })
		c.add(3)
		for _, n := range c.nodes {
			c.start(n)
		}
		defer c.stop()
		leads := c.leader(within)
		away := c.others(leads)[0]
		if err := c.end(away); err != nil {
			t.Fatal(err)
		}
		fill := func() {
			for i := range 40 {
				var labels session.Labels
				for n := range 16 {
					labels = append(labels, session.Label{Key: fmt.Sprintf("k%02d", n), Value: fmt.Sprintf("%0250d", i)})
				}
				c.openWith(leads, labels)
			}
			time.Sleep(3 * time.Second)
		}
		for round := range 3 {
			fill()
			first, err := leads.consensus.stores.logs.FirstIndex()
			if err != nil {
				t.Fatal(err)
			}
			last := leads.consensus.raft.LastIndex()
			if kept := last - first + 1; kept > 60 || kept < 10 {
				t.Errorf("round %d: the log has %d entries of 4 kB, bound %d bytes", round, kept, bound)
			}
		}
		c.start(away)
		c.agree(time.Minute)
		c.openWith(leads, nil) // behind the newest snapshot
		restarted := leads
		c.restart(restarted)
		leads = c.leader(within)
		c.agree(time.Minute)
		newest, err := restarted.consensus.stores.newest()
		if err != nil || newest == nil {
			t.Fatalf("the newest snapshot: %v, %v", newest, err)
		}
		if known := restarted.consensus.stores.size.marks[0].index; known != newest.Index+1 {
			t.Errorf("after a start the sizes of entries are known from %d on, the snapshot ends with %d", known,
				newest.Index)
		}
		fill()
		if due := leads.consensus.stores.size.due(); due {
			t.Error("no snapshot was taken after a start")
		}
	})
}

// openWith opens a session with labels through n.
func (c *testCluster) openWith(n *testNode, labels session.Labels) {
	c.t.Helper()
	conn, err := n.server.Connect(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.opens++
	if _, err = conn.Open(c.t.Context(), session.OpenRequest{
		RequestID: session.RequestID{c.opens, 1}, Timeout: 40 * time.Second, MS: session.MS(time.Now()), Labels: labels,
	}); err != nil {
		c.t.Fatal(err)
	}
}
