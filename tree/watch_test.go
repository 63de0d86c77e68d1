package tree_test

import (
	"testing"

	"holdfast/tree"
)

func TestWatchKinds(t *testing.T) {
	for kind, want := range map[tree.WatchKind]struct {
		name           string
		valid, oneShot bool
	}{
		0:                    {"unknown", false, false},
		tree.WatchData:       {"data", true, true},
		tree.WatchExists:     {"exists", true, true},
		tree.WatchChild:      {"child", true, true},
		tree.WatchPersistent: {"persistent", true, false},
		tree.WatchRecursive:  {"recursive", true, false},
		6:                    {"unknown", false, false},
	} {
		if kind.String() != want.name || kind.Valid() != want.valid || kind.OneShot() != want.oneShot {
			t.Errorf("kind %d: name %q, valid %v, one-shot %v: want %+v", kind, kind, kind.Valid(), kind.OneShot(), want)
		}
	}
}

func TestEventKinds(t *testing.T) {
	for kind, want := range map[tree.EventKind]struct {
		name  string
		valid bool
	}{
		0: {"unknown", false}, tree.EntryCreated: {"created", true}, tree.EntryDeleted: {"deleted", true},
		tree.DataChanged: {"data changed", true}, tree.ChildrenChanged: {"children changed", true}, 5: {"unknown", false},
	} {
		if kind.String() != want.name || kind.Valid() != want.valid {
			t.Errorf("kind %d: name %q, valid %v: want %+v", kind, kind, kind.Valid(), want)
		}
	}
}
