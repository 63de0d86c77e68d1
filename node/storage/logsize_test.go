package storage

import (
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// W7: whatever is written, cut off and snapshotted, a snapshot is due after the bound of bytes, and as many
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

// W7: at its start a node counts the entries behind its newest snapshot, which Raft reads in their order.
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
