package watch_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"holdfast/tree"
	"holdfast/watch"
)

const million = 1_000_000

// pathAt has 35 bytes.
func pathAt(i int) string { return fmt.Sprintf("/services/%04d/instance-%012d", i%1000, i) }

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// watched returns a table with a million watches of a kind of ten thousand connections. pathOf returns the path of
// each.
func watched(kind tree.WatchKind, pathOf func(i int) string) *watch.Table[int] {
	table := watch.NewTable[int](watch.MaxConnectionBytes, 0)
	var connections []*watch.Connection[int]
	for i := range million {
		if i%100 == 0 {
			connections = append(connections, opens(table, i, nil))
		}
		if err := table.Add(connections[i%len(connections)], pathOf(i), kind); err != nil {
			panic(err)
		}
	}
	return table
}

// alone returns a table whose watches are of a million connections, all on one path.
func alone() *watch.Table[int] {
	table := watch.NewTable[int](watch.MaxConnectionBytes, 0)
	for i := range million {
		if err := table.Add(opens(table, i, nil), pathAt(0), tree.WatchData); err != nil {
			panic(err)
		}
	}
	return table
}

// BenchmarkHeap reports the live heap of a watch among a million, with paths of 35 bytes. The million connections of
// "one path" are counted too; they need about half.
func BenchmarkHeap(b *testing.B) {
	for _, c := range []struct {
		name string
		fill func() *watch.Table[int]
	}{
		{"distinct paths", func() *watch.Table[int] { return watched(tree.WatchData, pathAt) }},
		{"half on distinct paths", func() *watch.Table[int] {
			return watched(tree.WatchData, func(i int) string {
				if i%2 == 0 {
					return pathAt(i / 200) // a hundred watches each
				}
				return pathAt(million + i)
			})
		}},
		{"one path", alone},
	} {
		b.Run(c.name, func(b *testing.B) {
			before := heap()
			table := c.fill()
			if got := table.Watches(); got < million*99/100 {
				b.Fatalf("%d watches", got)
			}
			size := float64(heap()-before) / million
			for b.Loop() {
			}
			b.ReportMetric(size, "B/watch") // the loop clears what was reported before
			runtime.KeepAlive(table)
		})
	}
}

// BenchmarkUnrelated fires a change on a path that nobody watches.
func BenchmarkUnrelated(b *testing.B) {
	none := func() *watch.Table[int] {
		return watch.NewTable[int](watch.MaxConnectionBytes, 0)
	}
	for _, c := range []struct {
		name string
		fill func() *watch.Table[int]
	}{
		{"no watches", none},
		{"a million data watches", func() *watch.Table[int] { return watched(tree.WatchData, pathAt) }},
		{"a million recursive watches", func() *watch.Table[int] {
			return watched(tree.WatchRecursive, func(i int) string { return fmt.Sprintf("/apps/%d", i) })
		}},
		{"a million on one path", alone},
	} {
		b.Run(c.name, func(b *testing.B) {
			table := c.fill()
			change := tree.Change{
				Stamp: tree.StampAt(1, 1), Kind: tree.Created, Path: "/other/path/0001/of-an-instance-0001",
				ACL: &openList, Parent: &openList,
			}
			b.ReportAllocs()
			for b.Loop() {
				table.Fire(&change, func(*watch.Connection[int], watch.Event) { b.Fatal("told") })
			}
		})
	}
}

// BenchmarkFire fires a change to ten thousand watchers of a path, or of one above it, into their feeds. One-shot
// watches are registered again, which is not measured.
func BenchmarkFire(b *testing.B) {
	const watchers = 10_000
	for _, w := range []watch.Watch{
		{Path: pathAt(1), Kind: tree.WatchData},
		{Path: pathAt(1), Kind: tree.WatchPersistent},
		{Path: tree.Parent(pathAt(1)), Kind: tree.WatchRecursive},
	} {
		b.Run(w.Kind.String(), func(b *testing.B) {
			table := watch.NewTable[*watch.Feed[tree.Event]](watch.MaxConnectionBytes, 0)
			var connections []*watch.Connection[*watch.Feed[tree.Event]]
			for range watchers {
				c := opens(table, watch.NewFeed[tree.Event](watch.DefaultFeedLimits()), nil)
				connections = append(connections, c)
			}
			change := tree.Change{Stamp: tree.StampAt(1, 1), Kind: tree.DataSet, Path: pathAt(1), ACL: &openList}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for _, c := range connections {
					if err := table.Add(c, w.Path, w.Kind); err != nil {
						b.Fatal(err)
					}
					c.Owner.Next(time.Time{}, watch.End(1), nil)
				}
				b.StartTimer()
				told := 0
				table.Fire(&change, func(to *watch.Connection[*watch.Feed[tree.Event]], e watch.Event) {
					told++
					if e.Once {
						to.Owner.AddOneShot(e.Stamp, e.Event)
					} else {
						to.Owner.AddEvent(e.Stamp, e.Event, len(e.Path))
					}
				})
				if told != watchers {
					b.Fatalf("told %d", told)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/watchers, "ns/watcher")
		})
	}
}

// BenchmarkAddRemove adds and removes a watch among a million on one path, of a connection that has 90,000.
func BenchmarkAddRemove(b *testing.B) {
	table := alone()
	c := opens(table, 0, nil)
	for i := range 90_000 {
		if err := table.Add(c, pathAt(i+1), tree.WatchChild); err != nil {
			b.Fatal(err)
		}
	}
	path := pathAt(0)
	b.ReportAllocs()
	for b.Loop() {
		if err := table.Add(c, path, tree.WatchPersistent); err != nil {
			b.Fatal(err)
		}
		if table.Remove(c, path, watch.All) == 0 {
			b.Fatal("was not there")
		}
	}
}

// BenchmarkClose ends a connection with a hundred watches among a million.
func BenchmarkClose(b *testing.B) {
	table := watched(tree.WatchData, pathAt)
	var paths []string
	for i := range 100 {
		paths = append(paths, pathAt(i*1000))
	}
	b.ReportAllocs()
	for b.Loop() {
		c := opens(table, 0, nil)
		for _, path := range paths {
			if err := table.Add(c, path, tree.WatchData); err != nil {
				b.Fatal(err)
			}
		}
		table.Close(c)
	}
}

// filledRing returns a full ring of the real size.
func filledRing() (*watch.TreeRing, uint64) {
	ring := watch.NewTreeRing(watch.DefaultRingLimits(), 0)
	index := uint64(0)
	for i := range 300_000 {
		index++
		ring.Append(index, tree.Change{
			Stamp: tree.StampAt(index, 1), Kind: tree.DataSet, Path: pathAt(i), ACL: &openList, Parent: &openList,
		})
	}
	return ring, index
}

// BenchmarkAppend appends an entry with one change to a full ring.
func BenchmarkAppend(b *testing.B) {
	ring, index := filledRing()
	b.ReportAllocs()
	for b.Loop() {
		index++
		ring.Append(index, tree.Change{
			Stamp: tree.StampAt(index, 1), Kind: tree.DataSet, Path: "/services/0001/instance-000000000001", ACL: &openList,
		})
	}
}

// BenchmarkPass reads the newest entry from a full ring.
func BenchmarkPass(b *testing.B) {
	ring, index := filledRing()
	b.ReportAllocs()
	for b.Loop() {
		changes, ok := ring.Range(watch.End(index-1), watch.End(index))
		for c := range changes {
			ok = ok && c.Stamp.Index() == index
		}
		if !ok {
			b.Fatal("not there")
		}
	}
}

// empty is a view in which nothing exists.
type empty struct{}

func (empty) Stat(string) (tree.Stat, bool) { return tree.Stat{}, false }
func (empty) Effective(string) tree.ACL     { return openList }

// BenchmarkResume comes back with ten persistent watches and one recursive one from 200,000 changes ago, ten of which
// match.
func BenchmarkResume(b *testing.B) {
	ring, index := filledRing()
	table := watch.NewTable[int](watch.MaxConnectionBytes, index)
	r := watch.Resumption{From: watch.End(index - 200_000)}
	for i := range 10 {
		r.Watches = append(r.Watches, watch.Watch{Path: pathAt(int(index) - 20_000*i - 1), Kind: tree.WatchPersistent})
	}
	r.Watches = append(r.Watches, watch.Watch{Path: "/other/place", Kind: tree.WatchRecursive})
	b.ReportAllocs()
	for b.Loop() {
		c := opens(table, 0, nil)
		told := 0
		if lost, err := table.Resume(c, r, empty{}, ring, func(watch.Event) { told++ }); lost || err != nil || told != 10 {
			b.Fatal(lost, err, told)
		}
		table.Close(c)
	}
}
