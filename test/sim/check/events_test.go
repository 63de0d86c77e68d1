package check

import (
	"slices"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// watchedHistory builds a history of watches. Each event is a second after the one before.
type watchedHistory struct {
	events      []history.Event
	watchedTree []history.Event
}

func (h *watchedHistory) add(e history.Event) {
	e.At = at(float64(10 + len(h.events)))
	h.events = append(h.events, e)
}

// grows records what an entry of the log changes, with the tree that this leads to.
func (h *watchedHistory) grows(index uint64, changes ...tree.Change) {
	for i := range changes {
		changes[i].Stamp = tree.StampAt(index, 1)
	}
	e := history.Event{Kind: history.TreeChanged, Who: "n1", Index: index, Grown: &history.Grown{Changes: changes}}
	h.watchedTree = append(h.watchedTree, e)
	e.Grown.Entries = newWatchedTree(h.watchedTree).entriesAt(end(index))
	h.add(e)
}

func (h *watchedHistory) begins(name string, stamp tree.Stamp, specs ...tree.WatchSpec) {
	h.add(history.Event{Kind: history.WatchBegan, Who: "o1", Watched: &history.Watched{
		Name: name, Specs: specs, Stamp: stamp,
	}})
}

func (h *watchedHistory) receives(name string, index uint64, kind tree.EventKind, path string) {
	h.add(history.Event{Kind: history.WatchReceived, Who: "o1", Watched: &history.Watched{
		Name: name, Event: tree.Event{Stamp: tree.StampAt(index, 1), Kind: kind, Path: path},
	}})
}

func (h *watchedHistory) reported(kind history.Kind, name string, stamp tree.Stamp) {
	h.add(history.Event{Kind: kind, Who: "o1", Watched: &history.Watched{
		Name: name, Stamp: stamp, Newest: stamp.Index(),
	}})
}

func (h *watchedHistory) views(kind history.Kind, path string, stamp, waited tree.Stamp) {
	l := newWatchedTree(h.watchedTree).at(path, stamp)
	h.add(history.Event{
		Kind: kind, Who: "o1", Entry: &history.Entry{Path: path, Stamp: stamp, Exists: l.there, Stat: l.stat},
		Watched: &history.Watched{Name: "m", Stamp: waited},
	})
}

// orchard is a history of watches in which nothing is wrong.
func orchard() []history.Event {
	h := &watchedHistory{}
	change := func(kind tree.ChangeKind, path string) tree.Change { return tree.Change{Kind: kind, Path: path} }
	h.grows(10, change(tree.Created, "/w"))
	h.grows(11, change(tree.Created, "/w/a"))
	h.grows(12, change(tree.DataSet, "/w/a"), change(tree.Created, "/w/a/x"), change(tree.DataSet, "/w/a"))
	h.grows(13, change(tree.DataSet, "/w/a"))
	h.grows(14, change(tree.DataSet, "/w/a"))
	h.grows(15, change(tree.Deleted, "/w/a/x"))
	h.grows(16, change(tree.DataSet, "/w/a"))

	h.begins("all", end(10), tree.WatchSpec{Path: "/w", Kind: tree.WatchRecursive})
	h.receives("all", 11, tree.EntryCreated, "/w/a")
	h.receives("all", 12, tree.DataChanged, "/w/a")
	h.receives("all", 12, tree.EntryCreated, "/w/a/x")
	h.receives("all", 12, tree.DataChanged, "/w/a")
	h.reported(history.WatchLost, "all", end(14))
	h.receives("all", 15, tree.EntryDeleted, "/w/a/x")
	h.reported(history.WatchProgress, "all", end(15))
	h.receives("all", 16, tree.DataChanged, "/w/a")
	h.reported(history.WatchProgress, "all", end(17))

	h.begins("each", end(11), tree.WatchSpec{Path: "/w", Kind: tree.WatchRecursive})
	h.receives("each", 12, tree.DataChanged, "/w/a")
	h.receives("each", 12, tree.EntryCreated, "/w/a/x")
	h.receives("each", 12, tree.DataChanged, "/w/a")
	h.receives("each", 13, tree.DataChanged, "/w/a")
	h.reported(history.WatchProgress, "each", end(13))

	h.begins("own", end(13), tree.WatchSpec{Path: "/w/a", Kind: tree.WatchPersistent})
	h.receives("own", 14, tree.DataChanged, "/w/a")
	h.receives("own", 15, tree.ChildrenChanged, "/w/a")
	h.reported(history.WatchProgress, "own", end(15))

	h.begins("data", end(12), tree.WatchSpec{Path: "/w/a", Kind: tree.WatchData})
	h.reported(history.WatchProgress, "data", end(12))
	h.receives("data", 13, tree.DataChanged, "/w/a")
	h.begins("child", end(12), tree.WatchSpec{Path: "/w/a", Kind: tree.WatchChild})
	h.reported(history.WatchProgress, "child", end(14))
	h.receives("child", 15, tree.ChildrenChanged, "/w/a")
	h.begins("gone", end(12), tree.WatchSpec{Path: "/w/a/x", Kind: tree.WatchData})
	h.add(history.Event{Kind: history.WatchReceived, Who: "o1", Watched: &history.Watched{ // judged by the tree
		Name: "gone", Event: tree.Event{Stamp: end(16), Kind: tree.EntryDeleted, Path: "/w/a/x"},
	}})
	h.begins("none", end(12), tree.WatchSpec{Path: "/w/b", Kind: tree.WatchExists})
	h.reported(history.WatchProgress, "none", end(16))

	h.views(history.Viewed, "/w/a", end(12), 0)
	h.views(history.Viewed, "/w/a/x", end(16), 0)
	h.views(history.Mirrored, "/w/a", end(12), end(11))
	h.views(history.Mirrored, "/w/a", end(16), end(13))

	h.add(history.Event{Kind: history.AppliedOpen, Who: "n1", ID: id, Attachment: 1, Index: 20})
	h.add(history.Event{Kind: history.AppliedMove, Who: "n1", ID: id, Attachment: 2, Index: 21})
	h.add(history.Event{Kind: history.AppliedEnd, Who: "n1", ID: id, Attachment: 2, Index: 22})
	h.begins("ends", end(20))
	for i, kind := range []session.ChangeKind{session.Moved, session.Ended} {
		h.add(history.Event{
			Kind: history.WatchReceived, Who: "o1", ID: id, Attachment: 2,
			Watched: &history.Watched{Name: "ends", Session: kind, Event: tree.Event{Stamp: tree.StampAt(uint64(21+i), 3)}},
		})
	}
	h.reported(history.WatchProgress, "ends", end(23))
	return h.events
}

// judgeWatches returns what the judge of watches says.
func judgeWatches(h []history.Event) Result {
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	j := judge{newFacts(bounds()), v}
	for _, e := range h {
		j.note(e, v)
	}
	watches{judge: j}.check()
	return v.Result
}

// nth returns the place of the nth item that a watch received, from 0: its beginning.
func nth(h []history.Event, name string, n int) int {
	for i, e := range h {
		if e.Watched == nil || e.Watched.Name != name {
			continue
		}
		if n--; n < 0 {
			return i
		}
	}
	panic("no such item was sent to " + name)
}

// TestWatches breaks the history in one way after the other.
func TestWatches(t *testing.T) {
	good := judgeWatches(orchard())
	if len(good.Violations) > 0 {
		t.Fatalf("a history in which nothing is wrong: %v", good.Violations)
	}
	for _, name := range Names() {
		if (strings.HasPrefix(name, "I11") || name == "I13 view" || name == "I13 mirror" || name == "I13 before") &&
			name != "I11 lost sessions" && !strings.HasSuffix(name, " veiled") && good.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
	type events = []history.Event
	drop := func(name string, n int) func(events) events {
		return func(h events) events { i := nth(h, name, n); return slices.Delete(h, i, i+1) }
	}
	twice := func(name string, n int) func(events) events {
		return func(h events) events { i := nth(h, name, n); return slices.Insert(h, i+1, h[i]) }
	}
	swap := func(name string, n, m int) func(events) events {
		return func(h events) events {
			i, j := nth(h, name, n), nth(h, name, m)
			h[i], h[j] = h[j], h[i]
			h[i].At, h[j].At = h[j].At, h[i].At
			return h
		}
	}
	change := func(name string, n int, plant func(e *history.Event)) func(events) events {
		return func(h events) events { plant(&h[nth(h, name, n)]); return h }
	}
	from := func(stamp tree.Stamp) func(*history.Event) {
		return func(e *history.Event) { e.Watched.Stamp = stamp }
	}
	for _, c := range []struct {
		name, invariant string
		plant           func(h events) events
	}{
		{"an event is missing", "I11", drop("all", 1)},
		{"the last event is missing", "I11", drop("all", 8)},
		{"the last of a transaction is missing", "I11", drop("each", 3)},
		{"the middle of a transaction is missing", "I11", drop("each", 2)},
		{"an event comes twice", "I11", twice("all", 1)},
		{"an event comes twice, the second time late", "I11", func(h events) events {
			return slices.Insert(h, nth(h, "all", 9), h[nth(h, "all", 1)])
		}},
		{"events in another order", "I11", swap("own", 1, 2)},
		{"events of a transaction in another order", "I11", swap("each", 2, 3)},
		{"a LOST that covers too little", "I11", change("all", 5, from(end(13)))},
		{"a LOST that comes behind what it is for", "I11", swap("all", 5, 6)},
		{"no LOST", "I11", drop("all", 5)},
		{"a LOST of what is to come", "I11", change("all", 5, func(e *history.Event) { e.Watched.Newest = 13 })},
		{"an answer before its event", "I13", swap("all", 6, 7)},
		{"sent less than before", "I13", change("all", 9, from(end(14)))},
		{"sent an event from before its start", "I11", change("all", 0, from(end(11)))},
		{"sent an event that never happened", "I11", change("own", 1, func(e *history.Event) {
			e.Watched.Event.Kind = tree.EntryDeleted
		})},
		{"children of a recursive watch", "I11", change("all", 6, func(e *history.Event) {
			e.Watched.Event.Kind, e.Watched.Event.Path = tree.ChildrenChanged, "/w/a"
		})},
		{"a watch that begins twice", "I11", twice("own", 0)},
		{"an event before the beginning", "I11", swap("own", 0, 1)},
		{"a one-shot that fires twice", "I11", twice("data", 2)},
		{"a one-shot that does not fire", "I11", drop("data", 2)},
		{"a one-shot that fires late", "I11", change("child", 1, from(end(15)))},
		{"a one-shot of what its read has shown", "I11", change("data", 0, from(end(13)))},
		{"a one-shot of another kind", "I11", change("child", 2, func(e *history.Event) {
			e.Watched.Event.Kind = tree.DataChanged
		})},
		{"a one-shot of an entry that is there", "I11", change("gone", 1, func(e *history.Event) {
			e.Watched.Event.Stamp = end(13)
		})},
		{"a one-shot that is sent LOST", "I11", change("none", 1, func(e *history.Event) { e.Kind = history.WatchLost })},
		{"a session's end is missing", "I11", drop("ends", 2)},
		{"a session's end comes twice", "I11", twice("ends", 2)},
	} {
		h := c.plant(orchard())
		if c.name == "a one-shot that does not fire" {
			h = append(h, history.Event{Kind: history.WatchProgress, Who: "o1", Watched: &history.Watched{
				Name: "data", Stamp: end(16),
			}})
		}
		found := false
		for _, v := range judgeWatches(h).Violations {
			found = found || v.Invariant == c.invariant
		}
		if !found {
			t.Errorf("%s: no %s", c.name, c.invariant)
		}
	}
}

// TestViews breaks what readers of the watched part of the tree are shown.
func TestViews(t *testing.T) {
	for _, c := range []struct {
		name, invariant string
		kind            history.Kind
		plant           func(views []*history.Event)
	}{
		{"a read of an older state", "I13", history.Viewed, func(v []*history.Event) { v[0].Entry.Stat.Version = 1 }},
		{"a read of a newer state", "I13", history.Viewed, func(v []*history.Event) {
			v[0].Entry.Stat.Modified = tree.StampAt(13, 1)
		}},
		{"a read that misses children", "I13", history.Viewed, func(v []*history.Event) {
			v[0].Entry.Stat.ChildrenModified = tree.StampAt(11, 1)
		}},
		{"a read of what is gone", "I13", history.Viewed, func(v []*history.Event) { v[1].Entry.Exists = true }},
		{"a stamp that falls", "I13", history.Viewed, func(v []*history.Event) {
			v[0].Entry.Stamp, v[1].Entry.Stamp = end(16), end(15)
			*v[0].Entry = *v[1].Entry
			v[0].Entry.Stamp = end(16)
		}},
		{"a mirror behind its reader", "I13", history.Mirrored, func(v []*history.Event) { v[0].Watched.Stamp = end(13) }},
		{"a mirror that goes back", "I13", history.Mirrored, func(v []*history.Event) {
			*v[0].Entry, *v[1].Entry = *v[1].Entry, *v[0].Entry
			v[0].Watched.Stamp, v[1].Watched.Stamp = 0, 0
		}},
		{"a mirror behind its stamp", "I13", history.Mirrored, func(v []*history.Event) { v[0].Entry.Stamp = end(13) }},
		{"a mirror of what never was", "I13", history.Mirrored, func(v []*history.Event) { v[1].Entry.Stat.Version = 9 }},
		{"a tree that the changes do not lead to", "I11", history.TreeChanged, func(v []*history.Event) {
			v[2].Grown.Entries = v[1].Grown.Entries
		}},
		{"a change that the tree does not show", "I11", history.TreeChanged, func(v []*history.Event) {
			v[3].Grown.Changes = nil
		}},
	} {
		h := orchard()
		var views []*history.Event
		for i := range h {
			if h[i].Kind == c.kind {
				views = append(views, &h[i])
			}
		}
		c.plant(views)
		found := false
		for _, v := range judgeWatches(h).Violations {
			found = found || v.Invariant == c.invariant
		}
		if !found {
			t.Errorf("%s: no %s", c.name, c.invariant)
		}
	}
}
