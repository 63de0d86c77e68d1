package check

import (
	"testing"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

const cellPath = BlindPath + "/x"

// touching returns a write of the entry that is judged blindly.
func touching(sent, reported float64, fate history.Fate, op tree.Op, came touch) history.Event {
	c := &history.Call{Fate: fate, Transaction: tagged(uint64(sent*10), op)}
	switch {
	case fate != history.Answered:
	case came.refused != 0:
		c.Result.Outcome.Refused = &tree.RefusedError{Code: came.refused}
	default:
		c.Result.Outcome.Ops = []tree.OpOutcome{{Stat: tree.Stat{Version: came.version}}}
	}
	return history.Event{At: at(reported), Sent: at(sent), Kind: history.Called, Who: "a1", ID: id, Call: c}
}

// feeling returns a linearizable read of the entry, of no entry if data is empty.
func feeling(sent, reported float64, data string, version int64) history.Event {
	return history.Event{At: at(reported), Sent: at(sent), Kind: history.Found, Who: "a2", ID: id, Entry: &history.Entry{
		Path: cellPath, Linearizable: true, Exists: data != "", Data: data, Stat: tree.Stat{Version: version},
	}}
}

// cells is a correct history of one entry.
func cells() []history.Event {
	create := func(data string) tree.Op {
		return tree.Create{Path: cellPath, Kind: tree.Persistent, Data: []byte(data)}
	}
	put := func(data string, version int64) tree.Op {
		return tree.Set{Path: cellPath, Version: version, Data: []byte(data)}
	}
	return []history.Event{
		feeling(1, 2, "", 0),
		touching(3, 4, history.Answered, create("a"), touch{}),
		touching(3, 5, history.Answered, create("b"), touch{refused: tree.NodeExists}),
		touching(6, 7, history.InDoubt, put("c", tree.Any), touch{}),
		feeling(8, 9, "a", 0),
		touching(10, 12, history.Answered, put("d", 1), touch{version: 2}), // the write in doubt came before it
		feeling(11, 13, "d", 2),
		touching(14, 15, history.Answered, put("e", 1), touch{refused: tree.BadVersion}),
		touching(16, 17, history.Answered, tree.Delete{Path: cellPath, Version: tree.Any}, touch{}),
		feeling(18, 19, "", 0),
		touching(20, 21, history.NoEffect, create("f"), touch{}),
		feeling(22, 23, "", 0),
	}
}

// judgeBlindly returns the verdict of the judge without stamps.
func judgeBlindly(h []history.Event) Result {
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	j := judge{newFacts(bounds()), v}
	for _, e := range h {
		j.note(e, v)
	}
	blind{replays{j}}.check()
	return v.Result
}

func TestBlind(t *testing.T) {
	if r := judgeBlindly(cells()); len(r.Violations) > 0 || r.Checked["blind"] != 1 {
		t.Fatalf("a history in which nothing is wrong: %v", r.Violations)
	}
	for _, c := range []struct {
		name  string
		plant func(h []history.Event)
	}{
		{"a write was lost", func(h []history.Event) { h[6].Entry.Data = "a" }},
		{"a write took effect twice", func(h []history.Event) { h[6].Entry.Stat.Version = 3 }},
		{"never, and yet it did", func(h []history.Event) { h[3].Call.Fate = history.NoEffect }},
		{"a read is stale", func(h []history.Event) { *h[9].Entry = *h[6].Entry }},
		{"two creates of one entry", func(h []history.Event) { h[2].Call.Result = h[1].Call.Result }},
		{"refused without a reason", func(h []history.Event) {
			h[7].Call.Transaction.Then[0] = h[3].Call.Transaction.Then[0]
		}},
		{"an answer without an outcome", func(h []history.Event) { h[5].Call.Result.Outcome.Ops = nil }},
		{"an answer of the future", func(h []history.Event) { h[0].Entry.Exists, h[0].Entry.Data = true, "a" }},
	} {
		h := cells()
		c.plant(h)
		if len(judgeBlindly(h).Violations) == 0 {
			t.Errorf("%s: not found", c.name)
		}
	}
}

// TestBlindGivesUp: a search that would be too long judges nothing, and says so.
func TestBlindGivesUp(t *testing.T) {
	var h []history.Event
	for i := range 40 {
		h = append(h, touching(1, 2, history.InDoubt, tree.Set{
			Path: cellPath, Version: tree.Any, Data: []byte{byte(i)},
		}, touch{}))
	}
	h = append(h, touching(1, 2, history.InDoubt, tree.Create{Path: cellPath, Kind: tree.Persistent}, touch{}),
		feeling(3, 4, "never written", 40))
	if r := judgeBlindly(h); len(r.Violations) > 0 || r.Checked["blind not judged"] != 1 {
		t.Errorf("%v, judged %v", r.Violations, r.Checked)
	}
}
