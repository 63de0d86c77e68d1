package watch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
	"holdfast/watch"
)

// longPath returns a path of so many bytes that is number n.
func longPath(n, bytes int) string {
	path := fmt.Sprintf("/%04d/", n)
	return path + strings.Repeat("a", bytes-len(path))
}

// opens opens a connection on a node of its own: it shares its memory with nobody.
func opens[C any](table *watch.Table[C], owner C, principals []tree.Principal) *watch.Connection[C] {
	return table.Open(owner, principals, fair.NewBudget[string](watch.MaxNodeBytes).Share(""))
}

// refuses requires that a watch is refused for its bytes, by the limit of the name.
func refuses(t *testing.T, err error, name string, most int) {
	t.Helper()
	limit, ok := errors.AsType[*session.LimitError](err)
	if !ok || limit.Name != name || !strings.HasPrefix(limit.Limit, fmt.Sprintf("%d bytes", most)) {
		t.Errorf("got %v, want %s of %d", err, name, most)
	}
}

// V1: watches are bounded by their size in bytes. A refused watch leaves nothing behind, several kinds on a path count
// once, and removed watches free memory.
func TestV1BytesOfWatchesAreBounded(t *testing.T) {
	const each, ofConnection, long = 4 * (1024 + 96), 4, 1024
	table := watch.NewTable[int](each, 0)
	room := fair.NewBudget[string](1 << 20)
	c := table.Open(0, nil, room.Share("a"))
	fills := func() {
		t.Helper()
		for n := range ofConnection {
			for _, kind := range []tree.WatchKind{tree.WatchData, tree.WatchPersistent} {
				if err := table.Add(c, longPath(n, long), kind); err != nil {
					t.Fatal(err)
				}
			}
		}
		refuses(t, table.Add(c, "/a", tree.WatchData), "watch_bytes_per_connection", each)
		if room.Used() != each || c.Watches() != 2*ofConnection || table.Paths() != ofConnection {
			t.Errorf("%d watches count %d bytes", c.Watches(), room.Used())
		}
	}
	fills()
	table.Fire(&tree.Change{
		Stamp: tree.StampAt(1, 1), Kind: tree.Deleted, Path: longPath(0, long), ACL: &openList, Parent: &openList,
	}, func(*watch.Connection[int], watch.Event) {})
	table.Remove(c, longPath(0, long), watch.All)
	table.Remove(c, longPath(1, long), watch.All)
	if err := table.Add(c, longPath(9999, long), tree.WatchData); err != nil {
		t.Errorf("after a path is watched no more: %v", err)
	}
	table.Close(c)
	if room.Used() != 0 || table.Watches() != 0 {
		t.Errorf("%d watches and %d bytes are left of a closed connection", table.Watches(), room.Used())
	}
	c = table.Open(0, nil, room.Share("a"))
	fills()
}

// V1: however many connections a principal opens, and whatever it watches, another principal can add watches at the
// node.
func TestV1APrincipalLeavesMemoryForWatches(t *testing.T) {
	const limit, long = 1 << 20, 4000
	room := fair.NewBudget[string](limit)
	tables := []*watch.Table[int]{watch.NewTable[int](limit/16, 0), watch.NewTable[int](limit/16, 0)} // two dispatchers
	var refused error
	for n := 0; refused == nil; n++ {
		c := tables[n%2].Open(n, nil, room.Share("ip:10.0.0.1"))
		for i := 0; i < 10 && refused == nil; i++ {
			refused = tables[n%2].Add(c, longPath(10*n+i, long), tree.WatchData)
		}
	}
	refuses(t, refused, "watch_bytes_per_node", limit)
	if taken := room.Used(); taken > limit*3/4 || taken < limit/2 {
		t.Errorf("a principal took %d of %d bytes", taken, limit)
	}
	other := tables[0].Open(0, nil, room.Share("ip:10.0.0.2"))
	for i := range 10 {
		if err := tables[0].Add(other, longPath(i, long), tree.WatchData); err != nil {
			t.Errorf("watch %d of another principal: %v", i, err)
		}
	}
}
