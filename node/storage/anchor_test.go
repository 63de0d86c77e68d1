package storage

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/node/storage/segments"
)

// TestAnchor: what a snapshot says of its last entry decides what stays of a log, whose index is the first number and
// whose term the second.
func TestAnchor(t *testing.T) {
	for name, c := range map[string]struct {
		log         map[uint64]uint64
		index, term uint64
		want        map[uint64]uint64
	}{
		"no log": {nil, 5, 2, nil},
		"it has the entry": {
			map[uint64]uint64{3: 1, 4: 1, 5: 2, 6: 2}, 5, 2, map[uint64]uint64{3: 1, 4: 1, 5: 2, 6: 2},
		},
		"it has another":            {map[uint64]uint64{3: 1, 4: 1, 5: 1, 6: 1}, 5, 2, map[uint64]uint64{6: 1}},
		"another of a later term":   {map[uint64]uint64{3: 1, 4: 1, 5: 3, 6: 3}, 5, 2, map[uint64]uint64{6: 3}},
		"it ends before":            {map[uint64]uint64{2: 1, 3: 1}, 5, 2, nil},
		"it begins behind":          {map[uint64]uint64{6: 2, 7: 2}, 5, 2, map[uint64]uint64{6: 2, 7: 2}},
		"it was cut there":          {map[uint64]uint64{5: 2, 6: 2}, 5, 2, map[uint64]uint64{5: 2, 6: 2}},
		"the last is another's end": {map[uint64]uint64{4: 1, 5: 1}, 5, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bolt, err := openBolt(filepath.Join(dir, "raft.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer bolt.Close()
			files, err := segments.Open(segments.Options{
				Folder: filepath.Join(dir, "log"), Owner: 1, Stable: bolt, Logger: hclog.NewNullLogger(),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			for _, index := range slices.Sorted(maps.Keys(c.log)) {
				if err := files.StoreLog(&raft.Log{Index: index, Term: c.log[index]}); err != nil {
					t.Fatal(err)
				}
			}
			logs := &anchoredLogs{LogStore: files}
			if err := logs.anchor(c.index, c.term); err != nil {
				t.Fatal(err)
			}
			got := map[uint64]uint64{}
			for index := range uint64(10) {
				var e raft.Log
				if err := files.GetLog(index, &e); err == nil {
					got[index] = e.Term
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("left are %v, want %v", got, c.want)
			}
			var e raft.Log
			if err := logs.GetLog(c.index, &e); err != nil || e.Index != c.index || e.Term != c.term {
				t.Errorf("the entry at the snapshot's end is %d of term %d, %v", e.Index, e.Term, err)
			}
			if err := logs.GetLog(1, &e); !errors.Is(err, raft.ErrLogNotFound) {
				t.Errorf("an entry that is not there: %v", err)
			}
			next := max(c.index, slices.Max(append(slices.Collect(maps.Keys(got)), 0))) + 1
			if err := logs.StoreLog(&raft.Log{Index: next, Term: c.term}); err != nil {
				t.Errorf("the next entry, %d: %v", next, err)
			}
		})
	}
}
