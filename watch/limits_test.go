package watch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// longPath returns a path of so many bytes that is number n.
func longPath(n, bytes int) string {
	path := fmt.Sprintf("/%04d/", n)
	return path + strings.Repeat("a", bytes-len(path))
}

// refusesPaths requires that a watch is refused for the bytes of watched paths.
func refusesPaths(t *testing.T, err error, name string, most int) {
	t.Helper()
	limit, ok := errors.AsType[*session.LimitError](err)
	if !ok || limit.Name != name || limit.Limit != fmt.Sprintf("%d bytes of watched paths", most) {
		t.Errorf("got %v, want %s of %d", err, name, most)
	}
}

// V1: watches are bounded in bytes, too. A refused watch leaves nothing behind, several kinds on a path have it once,
// and connections that share a path have it once for the node. What is removed makes room.
func TestV1PathsOfWatchesAreBounded(t *testing.T) {
	const each, limit, long = 16, 50, 1024
	ofConnection, ofNode := each*watch.PathBytes/long, limit*watch.PathBytes/long
	budget := watch.NewBudget(limit)
	table := watch.NewTable[int](budget, each, 0)
	fills := func(c *watch.Connection[int], from int) {
		t.Helper()
		for n := range ofConnection {
			for _, kind := range []tree.WatchKind{tree.WatchData, tree.WatchPersistent} {
				if err := table.Add(c, longPath(from+n, long), kind); err != nil {
					t.Fatal(err)
				}
			}
		}
		refusesPaths(t, table.Add(c, "/a", tree.WatchData), "watch_path_bytes_per_connection", each*watch.PathBytes)
	}
	var all []*watch.Connection[int]
	for i := range ofNode / ofConnection {
		all = append(all, table.Open(i, nil))
		fills(all[i], i*ofConnection)
	}
	shared := table.Open(0, nil)
	fills(shared, 0)
	table.Close(shared)
	last := table.Open(0, nil)
	taken := budget.Taken()
	refusesPaths(t, table.Add(last, longPath(9999, long), tree.WatchData), "watch_path_bytes_per_node",
		limit*watch.PathBytes)
	if budget.Taken() != taken || last.Watches() != 0 || table.Paths() != ofNode {
		t.Errorf("a refused watch is %d of the node's and %d of its connection's", budget.Taken()-taken, last.Watches())
	}
	table.Fire(&tree.Change{
		Stamp: tree.StampAt(1, 1), Kind: tree.Deleted, Path: longPath(0, long), ACL: &openList, Parent: &openList,
	}, func(*watch.Connection[int], watch.Event) {})
	table.Remove(all[0], longPath(0, long), watch.All)
	table.Remove(all[0], longPath(1, long), watch.All)
	for _, c := range []*watch.Connection[int]{last, all[0]} {
		if err := table.Add(c, longPath(9999-c.Watches(), long), tree.WatchData); err != nil {
			t.Errorf("after a path is watched no more: %v", err)
		}
	}
	for _, c := range append(all, last) {
		table.Close(c)
	}
	fills(table.Open(0, nil), 0)
}
