package watch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// TestResumeFindsAllInTheRing: whichever parts of a ring a client need not look at, it gets the events of a list of all
// changes, in their order.
func TestResumeFindsAllInTheRing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 4))
	var paths []string
	for i := range 8 {
		a := fmt.Sprintf("/%d", i)
		paths = append(paths, a)
		for j := range 8 {
			b := fmt.Sprintf("%s/%d", a, j)
			paths = append(paths, b)
			for k := range 30 {
				paths = append(paths, fmt.Sprintf("%s/%d", b, k))
			}
		}
	}
	ring := watch.NewTreeRing(watch.RingLimits{Items: 20 * 1024, Bytes: 64 << 20}, 0)
	var all []tree.Change
	const entries = 15_000
	for index := uint64(1); index <= entries; index++ {
		c := tree.Change{
			Stamp: tree.StampAt(index, 1), Kind: tree.ChangeKind(1 + random.IntN(3)), Path: one(random, paths),
			ACL: one(random, []*tree.ACL{&openList, &openList, &joesList}),
		}
		if c.Kind != tree.DataSet {
			c.Parent = &openList
		}
		ring.Append(index, c)
		all = append(all, c)
	}
	table := watch.NewTable[int](watch.MaxConnectionBytes, entries)
	found := 0
	for range 200 {
		r := watch.Resumption{From: watch.End(random.Uint64N(entries))}
		for range one(random, []int{1, 2, 10, 100}) { // more than 64 are looked for in another way
			kind := one(random, []tree.WatchKind{tree.WatchPersistent, tree.WatchPersistent, tree.WatchRecursive})
			r.Watches = append(r.Watches, watch.Watch{Path: one(random, append(paths, "/")), Kind: kind})
		}
		principals := one(random, [][]tree.Principal{nil, joe})
		var got, want []tree.Event
		c := opens(table, 0, principals)
		lost, err := table.Resume(c, r, empty{}, ring, func(e watch.Event) {
			if e.Once {
				t.Errorf("%+v ends a one-shot watch", e)
			}
			got = append(got, e.Event)
		})
		if lost || err != nil {
			t.Fatal(lost, err)
		}
		for _, change := range all[r.From.Index():] {
			events, lists := eventsOf(change)
			for i, e := range events {
				matches := slices.ContainsFunc(r.Watches, func(w watch.Watch) bool { return hears(w.Path, w.Kind, e) })
				if matches && lists[i].Grants(tree.Read, principals) {
					want = append(want, e)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: told %d events, want %d", r, len(got), len(want))
		}
		found += len(got)
		table.Close(c)
	}
	if found < 25_000 {
		t.Errorf("found %d events: the test does too little", found)
	}
}

// present is a view in which one entry exists.
type present struct {
	path string
	stat tree.Stat
	acl  tree.ACL
}

func (p present) Stat(path string) (tree.Stat, bool) { return p.stat, path == p.path }
func (p present) Effective(string) tree.ACL          { return p.acl }

// TestResumeJudgesOneShotsByTheTree goes through W-07, for a client that has all events up to 10.
func TestResumeJudgesOneShotsByTheTree(t *testing.T) {
	at := func(index uint64) tree.Stamp { return tree.StampAt(index, 1) }
	here := func(created, modified, children uint64) present {
		return present{
			path: "/a", acl: openList,
			stat: tree.Stat{Created: at(created), Modified: at(modified), ChildrenModified: at(children)},
		}
	}
	private := here(11, 12, 13)
	seen := here(5, 5, 5)
	seen.stat.Modified = watch.End(10)
	private.acl = joesList
	for _, c := range []struct {
		name string
		kind tree.WatchKind
		view watch.View
		want tree.Event // no kind: registered
	}{
		{"data, gone", tree.WatchData, empty{}, tree.Event{Kind: tree.EntryDeleted, Stamp: watch.End(20)}},
		{"data, changed", tree.WatchData, here(5, 11, 9), tree.Event{Kind: tree.DataChanged, Stamp: at(11)}},
		{"data, made anew", tree.WatchData, here(12, 12, 12), tree.Event{Kind: tree.DataChanged, Stamp: at(12)}},
		{"data, children changed", tree.WatchData, here(5, 9, 11), tree.Event{}},
		{"data, changed before", tree.WatchData, here(5, 9, 9), tree.Event{}},
		{"data, changed by what the client was told last", tree.WatchData, seen, tree.Event{}},
		{"data, not readable", tree.WatchData, private, tree.Event{}},
		{"exists, still missing", tree.WatchExists, empty{}, tree.Event{}},
		{"exists, created", tree.WatchExists, here(12, 15, 15), tree.Event{Kind: tree.EntryCreated, Stamp: at(12)}},
		{"exists, created before", tree.WatchExists, here(5, 5, 5), tree.Event{Kind: tree.EntryCreated, Stamp: at(5)}},
		{"child, gone", tree.WatchChild, empty{}, tree.Event{Kind: tree.EntryDeleted, Stamp: watch.End(20)}},
		{"child, changed", tree.WatchChild, here(5, 9, 11), tree.Event{Kind: tree.ChildrenChanged, Stamp: at(11)}},
		{"child, data changed", tree.WatchChild, here(5, 11, 9), tree.Event{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := watch.NewTable[int](watch.MaxConnectionBytes, 20)
			connection := opens(table, 0, nil)
			var got []watch.Event
			r := watch.Resumption{From: watch.End(10), Watches: []watch.Watch{{Path: "/a", Kind: c.kind}}}
			ring := watch.NewTreeRing(watch.DefaultRingLimits(), 20) // one-shots need none
			lost, err := table.Resume(connection, r, c.view, ring, func(e watch.Event) { got = append(got, e) })
			if lost || err != nil {
				t.Fatal(lost, err)
			}
			registered := table.Has(connection, "/a", watch.All) == watch.Of(c.kind)
			if c.want.Kind == 0 {
				if len(got) != 0 || !registered {
					t.Errorf("told %+v, registered: %v; want nothing, true", got, registered)
				}
				return
			}
			c.want.Path = "/a"
			if want := []watch.Event{{Event: c.want, Once: true}}; !slices.Equal(got, want) || registered {
				t.Errorf("told %+v, registered: %v; want %+v, false", got, registered, want)
			}
		})
	}
}

// TestResumeDeliversOnce: an event from the ring ends the matching one-shot watches, and is not delivered again.
func TestResumeDeliversOnce(t *testing.T) {
	table := watch.NewTable[int](watch.MaxConnectionBytes, 20)
	ring := watch.NewTreeRing(watch.DefaultRingLimits(), 5)
	for _, index := range []uint64{9, 12, 14} {
		ring.Append(index, tree.Change{Stamp: tree.StampAt(index, 1), Kind: tree.DataSet, Path: "/a", ACL: &openList})
	}
	stat := tree.Stat{Created: tree.StampAt(5, 1), Modified: tree.StampAt(14, 1), ChildrenModified: tree.StampAt(13, 1)}
	r := watch.Resumption{From: watch.End(10), Watches: []watch.Watch{
		{Path: "/a", Kind: tree.WatchData}, {Path: "/a", Kind: tree.WatchChild}, {Path: "/", Kind: tree.WatchRecursive},
	}}
	var got []watch.Event
	_, err := table.Resume(opens(table, 0, nil), r, present{path: "/a", stat: stat, acl: openList}, ring,
		func(e watch.Event) { got = append(got, e) })
	event := func(index uint64, kind tree.EventKind) tree.Event {
		return tree.Event{Stamp: tree.StampAt(index, 1), Kind: kind, Path: "/a"}
	}
	want := []watch.Event{
		{Event: event(12, tree.DataChanged), Once: true},
		{Event: event(13, tree.ChildrenChanged), Once: true},
		{Event: event(14, tree.DataChanged)},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("told %+v, %v; want %+v", got, err, want)
	}
}

// TestResumeIsWholeOrNot: what is refused registers nothing, and says why.
func TestResumeIsWholeOrNot(t *testing.T) {
	const two = 210 // bytes: of the watches on /kept and /b, and not on /c
	table := watch.NewTable[int](two, 20)
	ring := watch.NewTreeRing(watch.DefaultRingLimits(), 0)
	c := opens(table, 0, nil)
	if err := table.Add(c, "/kept", tree.WatchPersistent); err != nil {
		t.Fatal(err)
	}
	kept := watch.Watch{Path: "/kept", Kind: tree.WatchPersistent}
	data, other := watch.Watch{Path: "/b", Kind: tree.WatchExists}, watch.Watch{Path: "/c", Kind: tree.WatchRecursive}
	for _, one := range []struct {
		name string
		r    watch.Resumption
		want error
	}{
		{"over the limit", watch.Resumption{Watches: []watch.Watch{kept, data, other}}, session.ErrLimit},
		{"no such kind", watch.Resumption{Watches: []watch.Watch{data, {Path: "/c", Kind: 9}}}, session.ErrInvalid},
		{"no path", watch.Resumption{Watches: []watch.Watch{data, {Path: "c", Kind: tree.WatchData}}}, tree.ErrPath},
		{"ahead of the dispatcher", watch.Resumption{From: watch.End(21), Watches: []watch.Watch{data}}, session.ErrLagging},
	} {
		_, err := table.Resume(c, one.r, empty{}, ring, func(e watch.Event) { t.Errorf("%s: told %+v", one.name, e) })
		if !errors.Is(err, one.want) || c.Watches() != 1 || c.Lasting() != 1 || table.Has(c, "/kept", watch.All) == 0 {
			t.Errorf("%s: %v, and %d watches; want %v and one", one.name, err, c.Watches(), one.want)
		}
	}
}

// TestSkip: a dispatcher that continues at a newer root fires one-shots in the order of their stamps. Then it says who
// has lost changes.
func TestSkip(t *testing.T) {
	table := watch.NewTable[string](watch.MaxConnectionBytes, 20)
	for _, w := range []struct {
		owner string
		kind  tree.WatchKind
	}{{"child", tree.WatchChild}, {"data", tree.WatchData}, {"both", tree.WatchData}, {"lasting", tree.WatchPersistent}} {
		c := opens(table, w.owner, nil)
		if err := table.Add(c, "/a", w.kind); err != nil {
			t.Fatal(err)
		}
		if w.owner == "both" {
			if err := table.Add(c, "/b", tree.WatchRecursive); err != nil {
				t.Fatal(err)
			}
		}
	}
	view := present{path: "/a", acl: openList, stat: tree.Stat{
		Created: tree.StampAt(5, 1), Modified: tree.StampAt(22, 1), ChildrenModified: tree.StampAt(25, 1),
	}}
	var got []string
	table.Skip(30, view, func(to *watch.Connection[string], e watch.Event) {
		if !e.Once || e.Path != "/a" {
			t.Errorf("%s: %+v", to.Owner, e)
		}
		got = append(got, fmt.Sprintf("%s: %v at %v", to.Owner, e.Kind, e.Stamp))
	}, func(c *watch.Connection[string], first, last tree.Stamp) {
		if first != watch.End(20)+1 || last != watch.End(30) {
			t.Errorf("%s: lost from %v to %v", c.Owner, first, last)
		}
		got = append(got, c.Owner+": LOST")
	})
	want := []string{
		"both: LOST", "lasting: LOST", "data: data changed at 22.1", "both: data changed at 22.1",
		"child: children changed at 25.1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if table.Index() != 30 || table.Watches() != 2 {
		t.Errorf("at %d with %d watches, want 30 and 2", table.Index(), table.Watches())
	}
}
