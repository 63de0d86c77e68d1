package watch_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/tree"
	"holdfast/watch"
)

// TestPortionsAreTheWhole: in portions of whatever size a client gets the events that a resumption delivers at once, in
// the same order, and each event once: also where one transaction makes more events than a portion has.
func TestPortionsAreTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 9))
	paths := []string{"/a", "/a/b", "/a/b/c", "/a/d", "/ab", "/p", "/p/q"}
	ring := watch.NewTreeRing(watch.DefaultRingLimits(), 0)
	const entries = 400
	for index := uint64(1); index <= entries; index++ {
		var changes []tree.Change
		for position := 1; position <= 2; position++ {
			for range one(random, []int{0, 1, 1, 2, 30}) {
				c := tree.Change{
					Stamp: tree.StampAt(index, position), Kind: tree.ChangeKind(1 + random.IntN(3)), Path: one(random, paths),
					ACL: one(random, []*tree.ACL{&openList, &openList, &joesList}),
				}
				if c.Kind != tree.DataSet {
					c.Parent = &openList
				}
				changes = append(changes, c)
			}
		}
		ring.Append(index, changes...)
	}
	table := watch.NewTable[int](watch.MaxConnectionBytes, entries)
	portions := 0
	for range 100 {
		r := watch.Resumption{From: watch.End(random.Uint64N(entries))}
		for range 1 + random.IntN(3) {
			kind := one(random, []tree.WatchKind{tree.WatchPersistent, tree.WatchRecursive})
			r.Watches = append(r.Watches, watch.Watch{Path: one(random, append(paths, "/")), Kind: kind})
		}
		principals, size := one(random, [][]tree.Principal{nil, joe}), 1+random.IntN(40)
		resume := func(r watch.Resumption) (events []tree.Event) {
			c := opens(table, 0, principals)
			defer table.Close(c)
			lost, err := table.Resume(c, r, empty{}, ring, func(e watch.Event) { events = append(events, e.Event) })
			if lost || err != nil {
				t.Fatal(lost, err)
			}
			return events
		}
		want := resume(r)
		var got []tree.Event
		c := opens(table, 0, principals)
		for {
			left := size
			before := len(got)
			more := table.Portion(c, r, ring, func(tree.Event) bool {
				left--
				return left >= 0
			}, func(e watch.Event) { got = append(got, e.Event) })
			if c.Watches() > 0 {
				t.Fatal("a portion has registered a watch")
			}
			if more == nil {
				break
			}
			if len(got)-before != size {
				t.Fatalf("a portion of %d has %d events", size, len(got)-before)
			}
			portions++
			r.Delivered = *more
		}
		table.Close(c)
		last := resume(r)
		if len(last) > size {
			t.Fatalf("%d events are left for the resumption, of portions of %d", len(last), size)
		}
		if got = append(got, last...); !slices.Equal(got, want) {
			t.Fatalf("%+v in portions of %d: told %d events, want %d", r, size, len(got), len(want))
		}
	}
	if portions < 1500 {
		t.Errorf("%d portions: the test does too little", portions)
	}
}

// A portion delivers nothing where a resumption must report an error, or lost changes.
func TestNoPortion(t *testing.T) {
	ring := watch.NewTreeRing(watch.RingLimits{Items: 1, Bytes: 1 << 20}, 0)
	for index := uint64(1); index <= 9; index++ {
		ring.Append(index, tree.Change{Stamp: tree.StampAt(index, 1), Kind: tree.DataSet, Path: "/a", ACL: &openList})
	}
	table := watch.NewTable[int](watch.MaxConnectionBytes, 9)
	lasting := func(path string) []watch.Watch { return []watch.Watch{{Path: path, Kind: tree.WatchPersistent}} }
	for name, r := range map[string]watch.Resumption{
		"beyond the ring":         {From: watch.End(1), Watches: lasting("/a")},
		"of no path":              {From: watch.End(8), Watches: lasting("a")},
		"ahead of the dispatcher": {From: watch.End(10), Watches: lasting("/a")},
		"nothing new":             {From: watch.End(9), Watches: lasting("/a")},
		"one-shots":               {From: watch.End(8), Watches: []watch.Watch{{Path: "/a", Kind: tree.WatchData}}},
	} {
		more := table.Portion(opens(table, 0, nil), r, ring, func(tree.Event) bool { return false }, func(e watch.Event) {
			t.Errorf("%s: told %+v", name, e)
		})
		if more != nil {
			t.Errorf("%s: %+v", name, *more)
		}
	}
}
