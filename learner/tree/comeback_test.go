package tree_test

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// V4: a client that comes back with many watches does so in several requests. The missed events of the second request
// lie behind newer events of the first in the queue: these two are never sent together, because clients refuse messages
// in which stamps fall.
func TestV4OldEventsBehindNewOnes(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		number := uint64(0)
		do := func(ops ...tree.Op) tree.Stamp {
			c := w.connects(one)
			defer c.conn.Close()
			number++
			if err := c.conn.Write(session.TreeWrite{Key: number, Write: tree.NumberedWrite{
				Session: uint64(one), Number: number, Transaction: tree.Transaction{Then: ops},
			}}); err != nil {
				w.Fatal(err)
			}
			w.applies(w.takes()...)
			return tree.StampAt(w.index, 1)
		}
		was := do(tree.Create{Path: "/a", Kind: tree.Persistent}, tree.Create{Path: "/b", Kind: tree.Persistent})
		do(tree.Set{Path: "/b", Version: tree.Any})
		back := w.connects()
		comes := func(key uint64, path string) {
			if err := back.conn.AddWatches(session.TreeAddition{Key: key, Addition: tree.Addition{
				Watches: []tree.WatchSpec{{Path: path, Kind: tree.WatchPersistent}}, Since: was,
			}}); err != nil {
				w.Fatal(err)
			}
			synctest.Wait()
		}
		comes(1, "/a")
		back.hears("1: done")
		do(tree.Set{Path: "/a", Version: tree.Any})
		comes(2, "/b")
		var heard []string
		for told, ok := back.conn.Next(time.Now()); ok; told, ok = back.conn.Next(time.Now()) {
			heard = append(heard, describe(&told))
			if !slices.IsSortedFunc(told.Events, func(x, y tree.Event) int { return cmp.Compare(x.Stamp, y.Stamp) }) {
				t.Errorf("told together: %v", told.Events)
			}
		}
		if len(heard) != 3 || heard[0] != "event /a" || heard[1] != "event /b" {
			t.Errorf("told %q", heard)
		}
	})
}
