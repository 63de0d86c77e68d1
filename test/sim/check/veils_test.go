package check

import (
	"slices"
	"testing"

	"holdfast/session"
	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// veil is a log with entries that are hidden from some, and what three watches were told: one of ann, one of nobody in
// particular, and one of nobody that begins later. Nothing is wrong in it.
func veil() []history.Event {
	k := &clerk{tree: plain.New(0), principals: ann}
	everybody := tree.Grant{Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone}
	own := tree.ACL{{Permissions: tree.All, Scheme: tree.Digest, ID: ann[0].ID}}
	const path = VeiledPath + "/a"
	create := func(path string, list tree.ACL) tree.Op {
		return tree.Create{Path: path, Kind: tree.Persistent, ACL: list}
	}
	set := tree.Set{Path: path, Version: tree.Any, Data: []byte("set")}
	l := k.entry(10)
	k.session(l, 1, session.Opened, 1, 11)
	for number, ops := range [][]tree.Op{
		{create(VeiledPath, append(own, everybody))},
		{create(path, own)}, // 11: hidden but for the children of the entry above
		{set},               // 12: hidden
		{set, tree.SetACL{Path: path, Version: tree.Any, ACL: append(own, everybody)}, set}, // 13: the second set is for all
		{tree.SetACL{Path: path, Version: tree.Any, ACL: own}},                              // 14: told to nobody
		{tree.Delete{Path: path, Version: tree.Any}},                                        // 15: as 11
	} {
		if number > 0 {
			l = k.entry(uint64(10 + number))
		}
		k.write(l, 2, 1, uint64(1+number), tagged(uint64(100+number), ops...))
	}
	h := k.events
	moment := 20.0
	add := func(kind history.Kind, w history.Watched) {
		moment++
		h = append(h, history.Event{At: at(moment), Kind: kind, Who: "o1", Watched: &w})
	}
	hears := func(name string, index uint64, kind tree.EventKind, path string) {
		add(history.WatchHeard, history.Watched{
			Name: name, Event: tree.Event{Stamp: tree.StampAt(index, 2), Kind: kind, Path: path},
		})
	}
	begins := func(name string, index uint64, kind tree.WatchKind, path string, as []tree.Principal) {
		add(history.WatchBegan, history.Watched{
			Name: name, Stamp: end(index), Specs: []tree.WatchSpec{{Path: path, Kind: kind}}, As: as,
		})
	}
	begins("ann", 10, tree.WatchRecursive, VeiledPath, ann)
	hears("ann", 11, tree.EntryCreated, path)
	hears("ann", 12, tree.DataChanged, path)
	hears("ann", 13, tree.DataChanged, path)
	hears("ann", 13, tree.DataChanged, path)
	hears("ann", 15, tree.EntryDeleted, path)
	add(history.WatchTold, history.Watched{Name: "ann", Stamp: end(15)})
	begins("nobody", 10, tree.WatchRecursive, VeiledPath, nil)
	hears("nobody", 13, tree.DataChanged, path)
	add(history.WatchTold, history.Watched{Name: "nobody", Stamp: end(15)})
	begins("children", 10, tree.WatchPersistent, VeiledPath, nil)
	hears("children", 11, tree.ChildrenChanged, VeiledPath)
	hears("children", 15, tree.ChildrenChanged, VeiledPath)
	add(history.WatchTold, history.Watched{Name: "children", Stamp: end(15)})
	return h
}

// TestVeils breaks what watches were told of entries with lists, in one way after the other.
func TestVeils(t *testing.T) {
	good := judgeLedger(veil())
	if len(good.Violations) > 0 {
		t.Fatalf("a history in which nothing is wrong: %v", good.Violations)
	}
	for _, name := range []string{"I11 veiled", "I13 before veiled", "I14 told veiled", "I14 hidden veiled"} {
		if good.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
	type events = []history.Event
	told := func(name string, n int, index uint64, kind tree.EventKind, path string) func(events) events {
		return func(h events) events {
			i := nth(h, name, n)
			e := h[i]
			e.Kind, e.Watched = history.WatchHeard, &history.Watched{
				Name: name, Event: tree.Event{Stamp: tree.StampAt(index, 2), Kind: kind, Path: path},
			}
			return slices.Insert(h, i, e)
		}
	}
	drop := func(name string, n int) func(events) events {
		return func(h events) events { i := nth(h, name, n); return slices.Delete(h, i, i+1) }
	}
	const path = VeiledPath + "/a"
	for _, c := range []struct {
		name, invariant string
		plant           func(events) events
	}{
		{"told of an entry that it may not read", "I14", told("nobody", 1, 11, tree.EntryCreated, path)},
		{"told of data that it may not read", "I14", told("nobody", 1, 12, tree.DataChanged, path)},
		{"told of the end of what it may not read", "I14", told("nobody", 2, 15, tree.EntryDeleted, path)},
		{"told of a set before it was let in", "I11", told("nobody", 1, 13, tree.DataChanged, path)},
		{"told of a change of a list", "I11", told("ann", 5, 14, tree.DataChanged, path)},
		{"not told of what it may read", "I11", drop("ann", 2)},
		{"not told of what all may read by then", "I11", drop("nobody", 1)},
		{"children judged by the child's list", "I11", drop("children", 1)},
		{"known as somebody else", "I14", func(h events) events {
			h[nth(h, "ann", 0)].Watched.As = []tree.Principal{{Scheme: tree.Digest, ID: "bob:1"}}
			return h
		}},
	} {
		if !slices.ContainsFunc(judgeLedger(c.plant(veil())).Violations, func(v Violation) bool {
			return v.Invariant == c.invariant
		}) {
			t.Errorf("%s: no %s", c.name, c.invariant)
		}
	}
}
