package storage

import (
	"testing"

	"github.com/hashicorp/raft"
)

// Raft may drop what a snapshot has, and what was never applied.
func TestCutGuard(t *testing.T) {
	log := raft.NewInmemStore()
	if err := log.StoreLog(&raft.Log{Index: 60, Term: 3}); err != nil {
		t.Fatal(err)
	}
	g := cutGuard{
		applied:  func() uint64 { return 102 },
		snapshot: func() (snapshotMark, error) { return snapshotMark{Index: 50}, nil },
	}
	for _, tt := range []struct {
		begins, first, last uint64
		kept                bool
	}{
		{1, 103, 110, false},
		{1, 1, 50, false},
		{1, 102, 110, true},
		{1, 40, 60, true},
		{1, 102, 102, true},
		{1, 1, 102, true},   // the newest snapshot is older
		{1, 30, 40, false},  // what is left below a snapshot of another node
		{40, 45, 50, true},  // the log ends where the newest snapshot does
		{45, 45, 50, false}, // and begins there
	} {
		if err := g.cut(tt.begins, tt.first, tt.last); (err != nil) != tt.kept {
			t.Errorf("entries %d to %d of a log from %d on: %v", tt.first, tt.last, tt.begins, err)
		}
	}
	for _, tt := range []struct {
		index, term uint64
		refused     bool
	}{{60, 3, false}, {60, 4, true}, {10, 4, false}, {103, 4, false}} {
		if err := g.installs(tt.index, tt.term, log); (err != nil) != tt.refused {
			t.Errorf("a snapshot of entry %d of term %d: %v", tt.index, tt.term, err)
		}
	}
}
