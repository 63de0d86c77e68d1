package check

import (
	"testing"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// stamped returns an event about an entry of the tree, at a stamp whose index is also its moment in seconds.
func stamped(k history.Kind, who string, index uint64, entry history.Entry) history.Event {
	entry.Stamp = tree.StampAt(index, 1)
	if k == history.Wrote && entry.Refused == 0 {
		entry.Stat.Modified = entry.Stamp
	}
	return history.Event{At: at(float64(index)), Sent: at(float64(index) - 0.5), Kind: k, Who: who, Entry: &entry}
}

// garden is a history of the tree in which nothing is wrong: a counter, an ephemeral, and two numbered entries.
func garden() []history.Event {
	set := func(index uint64, data string, version int64) history.Event {
		return stamped(history.Wrote, "s1", index, history.Entry{
			Path: "/c", Data: data, Expected: version - 1, Stat: tree.Stat{Version: version},
		})
	}
	read := func(index uint64, data string, modified uint64) history.Event {
		return stamped(history.TreeRead, "s2", index, history.Entry{
			Path: "/c", Data: data, Exists: true, Stat: tree.Stat{Modified: tree.StampAt(modified, 1)}, Linearizable: true,
		})
	}
	made := stamped(history.Wrote, "s1", 30, history.Entry{Path: "/c", Data: "a", Expected: tree.Any})
	refused := stamped(history.Wrote, "s1", 33, history.Entry{
		Path: "/c", Data: "r", Expected: 0, Refused: tree.BadVersion,
	})
	own := func(e history.Event) history.Event {
		e.ID = id
		return e
	}
	there := history.Entry{Path: "/e", Data: "e", Exists: true, Stat: tree.Stat{Modified: tree.StampAt(36, 1)}}
	numbered := func(index uint64, path string) history.Event {
		return stamped(history.Wrote, "s1", index, history.Entry{Path: path, Sequential: true, Expected: tree.Any})
	}
	end := history.Event{At: at(40), Kind: history.AppliedEnd, Who: "n1", ID: id, Index: 40}
	return []history.Event{
		made, read(31, "a", 30), set(32, "b", 1), refused, read(34, "b", 32), read(35, "b", 32),
		own(stamped(history.Wrote, "s1", 36, history.Entry{Path: "/e", Data: "e", Expected: tree.Any})),
		own(stamped(history.TreeRead, "s2", 38, there)), end,
		own(stamped(history.TreeRead, "s2", 41, history.Entry{Path: "/e"})),
		numbered(42, "/l/x-0000000000"), numbered(43, "/l/x-0000000001"),
	}
}

// judgeEntries returns what the judge of the tree says.
func judgeEntries(h []history.Event) Result {
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	j := judge{newFacts(bounds()), v}
	for _, e := range h {
		j.note(e, v)
	}
	entries{j}.check()
	return v.Result
}

// TestEntries breaks the history in one way after the other.
func TestEntries(t *testing.T) {
	if r := judgeEntries(garden()); len(r.Violations) > 0 {
		t.Fatalf("a history in which nothing is wrong: %v", r.Violations)
	}
	for _, c := range []struct {
		name, invariant string
		plant           func(h []history.Event)
	}{
		{"two writes with one stamp", "I9", func(h []history.Event) {
			h[2].Entry.Stamp, h[2].Entry.Stat.Modified = h[0].Entry.Stamp, h[0].Entry.Stamp
		}},
		{"reported stamps fall", "I13", func(h []history.Event) { h[4].Entry.Stamp = tree.StampAt(30, 2) }},
		{"linearizable, and old", "R4", func(h []history.Event) { h[4].Entry.Stamp = tree.StampAt(31, 1) }},
		{"a write took effect twice", "I9", func(h []history.Event) { h[2].Entry.Stat.Version = 2 }},
		{"a version again", "I9", func(h []history.Event) { h[2].Entry.Stat.Version = 0 }},
		{"another stamp in the answer", "I9", func(h []history.Event) { h[2].Entry.Stat.Modified++ }},
		{"a condition that did not hold", "I9", func(h []history.Event) { h[2].Entry.Expected = 5 }},
		{"refused without a reason", "I9", func(h []history.Event) { h[3].Entry.Expected = 1 }},
		{"a change above the stamp", "I13", func(h []history.Event) { h[4].Entry.Stat.Modified = tree.StampAt(50, 1) }},
		{"an older change", "I13", func(h []history.Event) { h[4].Entry.Stat.Modified = tree.StampAt(30, 1) }},
		{"other data", "I13", func(h []history.Event) { h[4].Entry.Data = "a" }},
		{"data that no client wrote", "I9", func(h []history.Event) { h[4].Entry.Stat.Modified = tree.StampAt(33, 1) }},
		{"an entry is missing", "I12", func(h []history.Event) { h[4].Entry.Exists = false }},
		{"an ephemeral is missing", "I12", func(h []history.Event) { h[7].Entry.Exists = false }},
		{"an orphan", "I12", func(h []history.Event) {
			*h[9].Entry = *h[7].Entry
			h[9].Entry.Stamp = tree.StampAt(41, 1)
		}},
		{"a number again", "I15", func(h []history.Event) { h[11].Entry.Path = h[10].Entry.Path }},
	} {
		h := garden()
		c.plant(h)
		found := false
		for _, v := range judgeEntries(h).Violations {
			found = found || v.Invariant == c.invariant
		}
		if !found {
			t.Errorf("%s: no %s", c.name, c.invariant)
		}
	}
}

// TestEntriesInDoubt: a write without an answer may have taken effect.
func TestEntriesInDoubt(t *testing.T) {
	h := garden()
	lost := stamped(history.WriteLost, "s3", 33, history.Entry{Path: "/c", Data: "d"})
	h[5].Entry.Data, h[5].Entry.Stat.Modified = "d", tree.StampAt(34, 2)
	if r := judgeEntries(h); len(r.Violations) == 0 {
		t.Error("a write that no client sent is not found")
	}
	if r := judgeEntries(append(h, lost)); len(r.Violations) > 0 {
		t.Errorf("a write in doubt: %v", r.Violations)
	}
}
