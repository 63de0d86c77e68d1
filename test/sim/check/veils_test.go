package check

import (
	"slices"
	"testing"

	"holdfast/session"
	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// veil is a correct log with hidden entries, and the events of three watches: one of ann, one of an anonymous client,
// and one of an anonymous client that starts later.
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
		{tree.SetACL{Path: path, Version: tree.Any, ACL: own}},                              // 14: no watch receives it
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
	receives := func(name string, index uint64, kind tree.EventKind, path string) {
		add(history.WatchReceived, history.Watched{
			Name: name, Event: tree.Event{Stamp: tree.StampAt(index, 2), Kind: kind, Path: path},
		})
	}
	begins := func(name string, index uint64, kind tree.WatchKind, path string, as []tree.Principal) {
		add(history.WatchBegan, history.Watched{
			Name: name, Stamp: end(index), Specs: []tree.WatchSpec{{Path: path, Kind: kind}}, As: as,
		})
	}
	begins("ann", 10, tree.WatchRecursive, VeiledPath, ann)
	receives("ann", 11, tree.EntryCreated, path)
	receives("ann", 12, tree.DataChanged, path)
	receives("ann", 13, tree.DataChanged, path)
	receives("ann", 13, tree.DataChanged, path)
	receives("ann", 15, tree.EntryDeleted, path)
	add(history.WatchProgress, history.Watched{Name: "ann", Stamp: end(15)})
	begins("other", 10, tree.WatchRecursive, VeiledPath, nil)
	receives("other", 13, tree.DataChanged, path)
	add(history.WatchProgress, history.Watched{Name: "other", Stamp: end(15)})
	// "data" receives no hidden event, and then the second set of 13.
	begins("data", 11, tree.WatchData, path, nil)
	add(history.WatchProgress, history.Watched{Name: "data", Stamp: end(12)})
	receives("data", 13, tree.DataChanged, path)
	// "back" was away at that change, and comes back when it is hidden again. Its end is hidden as well.
	begins("back", 11, tree.WatchData, path, nil)
	h = append(h, history.Event{At: at(moment + 0.5), Kind: history.ConnectionChanged, Who: "o1"})
	add(history.WatchProgress, history.Watched{Name: "back", Stamp: end(14)})
	// "stays" keeps its connection all the while.
	moment += 2
	begins("stays", 11, tree.WatchData, path, nil)
	add(history.WatchProgress, history.Watched{Name: "stays", Stamp: end(12)})
	receives("stays", 13, tree.DataChanged, path)
	add(history.WatchProgress, history.Watched{Name: "stays", Stamp: end(14)})
	// "late" waits for an entry that it may not read at first, and comes back when it may.
	begins("late", 10, tree.WatchExists, path, nil)
	add(history.WatchReceived, history.Watched{
		Name: "late", Upper: end(13), Event: tree.Event{Stamp: tree.StampAt(11, 2), Kind: tree.EntryCreated, Path: path},
	})
	// "beside" is a lasting watch of the client of "late", whose event it receives.
	begins("beside", 10, tree.WatchRecursive, VeiledPath, nil)
	receives("beside", 11, tree.EntryCreated, path)
	receives("beside", 13, tree.DataChanged, path)
	add(history.WatchProgress, history.Watched{Name: "beside", Stamp: end(15)})
	begins("children", 10, tree.WatchPersistent, VeiledPath, nil)
	receives("children", 11, tree.ChildrenChanged, VeiledPath)
	receives("children", 15, tree.ChildrenChanged, VeiledPath)
	add(history.WatchProgress, history.Watched{Name: "children", Stamp: end(15)})
	return h
}

// TestVeils breaks the events of watches of entries with lists, in one way after the other.
func TestVeils(t *testing.T) {
	good := judgeLedger(veil())
	if len(good.Violations) > 0 {
		t.Fatalf("a history in which nothing is wrong: %v", good.Violations)
	}
	for _, name := range []string{
		"I11 veiled", "I13 before veiled", "I14 delivered veiled", "I14 hidden veiled", "I11 one-shot veiled",
		"I11 one-shot waits veiled", "I14 one-shot hidden veiled", "I14 one-shot came back veiled",
		"I11 one-shot stays veiled",
	} {
		if good.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
	type events = []history.Event
	reported := func(name string, n int, index uint64, kind tree.EventKind, path string) func(events) events {
		return func(h events) events {
			i := nth(h, name, n)
			e := h[i]
			e.Kind, e.Watched = history.WatchReceived, &history.Watched{
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
		{"sent an entry that it may not read", "I14", reported("other", 1, 11, tree.EntryCreated, path)},
		{"sent data that it may not read", "I14", reported("other", 1, 12, tree.DataChanged, path)},
		{"sent the end of an entry that it may not read", "I14", reported("other", 2, 15, tree.EntryDeleted, path)},
		{"sent a set from before it got the permission", "I11", reported("other", 1, 13, tree.DataChanged, path)},
		{"sent a change of a list", "I11", reported("ann", 5, 14, tree.DataChanged, path)},
		{"not sent what it may read", "I11", drop("ann", 2)},
		{"not sent what all may read by then", "I11", drop("other", 1)},
		{"children judged by the child's list", "I11", drop("children", 1)},
		{"a one-shot is sent a hidden event", "I14", reported("data", 1, 12, tree.DataChanged, path)},
		{"a one-shot is sent two events", "I11", reported("data", 2, 13, tree.DataChanged, path)},
		{"a one-shot is sent an event that it does not match", "I11", reported("data", 1, 14, tree.DataChanged, path)},
		{"a one-shot is not sent what it may read until the end", "I11", func(h events) events {
			h[nth(h, "data", 2)].Kind = history.WatchProgress
			h[nth(h, "data", 2)].Watched = &history.Watched{Name: "data", Stamp: end(13)}
			return h
		}},
		{"a one-shot that stays is not sent what is hidden again", "I11", drop("stays", 2)},
		{"a one-shot comes back before it may read", "I14", func(h events) events {
			h[nth(h, "late", 1)].Watched.Upper = end(12)
			return h
		}},
		{"a one-shot is sent an end that its client has yet to reach", "I14", func(h events) events {
			e := &h[nth(h, "late", 1)]
			e.Watched.Event = tree.Event{Stamp: end(15), Kind: tree.EntryDeleted, Path: path}
			i := nth(h, "beside", 1) // then no one-shot explains its event
			return slices.Delete(h, i, i+1)
		}},
		{"a lasting watch is sent the due event of another client's one-shot", "I14", func(h events) events {
			for i := range h {
				if h[i].Watched != nil && h[i].Watched.Name == "late" {
					h[i].Who = "o2"
				}
			}
			return h
		}},
		{"known under another name", "I14", func(h events) events {
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
