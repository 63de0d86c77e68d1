package check

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// crowdedFrom is when b1 of a made-up history fills a budget that the others of the history do not need.
const crowdedFrom = 70

func budget() *history.Budget {
	return &history.Budget{Name: "max_things", Limit: "7", Within: 2 * time.Second, Closed: []history.Op{history.Open}}
}

// probe plants a request of a client that holds little.
func probe(op history.Op, sent, answered float64, failed string) plant {
	return add(history.Event{
		At: at(answered), Kind: history.Probed, Who: "b2", Op: op, Sent: at(sent), Text: failed,
	})
}

// crowded plants a client that fills a budget, releases it, and is served again.
func crowded(refused string, again float64) plant {
	plants := []plant{
		add(history.Event{At: at(crowdedFrom), Kind: history.BudgetExhausted, Who: "b1", Budget: budget(), Text: refused}),
		add(history.Event{At: at(crowdedFrom + 5), Kind: history.BudgetReleased, Who: "b1", Budget: budget()}),
	}
	if again > 0 {
		plants = append(plants, add(history.Event{At: at(again), Kind: history.BudgetAvailable, Who: "b1", Budget: budget()}))
	}
	return all(plants...)
}

// lost plants that the client which fills budgets loses its session.
func lost(seconds float64) plant {
	return add(history.Event{At: at(seconds), Kind: history.BudgetAbandoned, Who: "b1", Budget: budget()})
}

const limitText = "over the limit max_things (7 things)"

// TestBoundsAreJudged plants what must not happen at a bound.
func TestBoundsAreJudged(t *testing.T) {
	findAll(t, []wrong{
		{"a refusal without the bound's name", "bound named", "without the bound", crowded("over a limit of 7", 76)},
		{"a refusal without its value", "bound named", "without the bound", crowded("over the limit max_things", 76)},
		{"a write that waits", "bound serves others", "not served within 1s", all(crowded(limitText, 76), probe(0, 71, 72.1, ""))},
		{"a write that fails", "bound serves others", "not served within 1s", all(crowded(limitText, 76), probe(0, 71, 71.1, "no"))},
		{"no budget again", "bound empties", "no budget again within 2s", crowded(limitText, 0)},
		{"budget again, and late", "bound empties", "no budget again within 2s", crowded(limitText, 77.1)},
		{"a session lost for no fault", "bound empties", "lost its session", all(crowded(limitText, 0), lost(76))},
		{"no budget, a storm, and a session lost late", "bound empties", "no budget again", all(
			storm(10, 12), crowded(limitText, 0), lost(78),
		)},
	})
}

// TestBoundsExcuse plants what may happen at a bound.
func TestBoundsExcuse(t *testing.T) {
	for name, tt := range map[string]struct {
		plant plant
		count string
	}{
		"a refusal":                  {crowded(limitText, 76), "bound named"},
		"a write beside it":          {all(crowded(limitText, 76), probe(0, 71, 71.9, "")), "bound serves others: max_things"},
		"an open without budget":     {all(crowded(limitText, 76), probe(history.Open, 71, 75, "no")), "bound named"},
		"a slow write before":        {all(crowded(limitText, 76), probe(0, 68, 69.9, "")), "bound named"},
		"budget again in time":       {crowded(limitText, 76.9), "bound empties: max_things"},
		"a write in a storm":         {all(storm(65, 72), crowded(limitText, 76), probe(0, 71, 75, "")), "bound named"},
		"budget again after a storm": {all(storm(65, 72), crowded(limitText, 80)), "bound empties"},
		"the run ends before it is":  {all(crowded(limitText, 0), finishes(76)), "bound named"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Check(sorted(tt.plant(good())), bounds())
			for _, v := range r.Violations {
				t.Error(v)
			}
			if r.Checked[tt.count] == 0 {
				t.Errorf("%s was not put to the test", tt.count)
			}
		})
	}
}

// No client uses the budget after a session was lost to a fault: this shows nothing, neither that there is budget nor
// that there is none.
func TestARoundOfALostSessionIsNotJudged(t *testing.T) {
	r := Check(sorted(all(storm(65, 72), crowded(limitText, 0), lost(76))(good())), bounds())
	for _, v := range r.Violations {
		t.Error(v)
	}
	if n := r.Checked["bound empties"]; n != 0 {
		t.Errorf("%d budgets were judged, want none", n)
	}
}

// finishes ends a history earlier.
func finishes(seconds float64) plant {
	return change(history.Finished, "", func(e *history.Event) { e.At = at(seconds) })
}

// TestBackupsAreJudged plants backups of other states than the log makes.
func TestBackupsAreJudged(t *testing.T) {
	of := func(index uint64, sessions, entries int) plant {
		return add(history.Event{
			At: at(60), Kind: history.BackedUp, Who: "n1", Sent: at(59), Index: index,
			Backup: &history.Backup{Sessions: sessions, Entries: entries},
		})
	}
	opened := add(history.Event{At: at(30), Kind: history.Committed, Who: "n1", Index: 5, Ledger: &history.Ledger{
		Sessions: []session.Change{{Kind: session.Opened, Stamp: tree.StampAt(5, 1), Session: session.Session{ID: id}}},
	}})
	wrote := add(history.Event{At: at(58), Kind: history.Wrote, Who: "s1", Entry: &history.Entry{
		Path: "/a", Stamp: tree.StampAt(11, 1), Refused: tree.NoNode,
	}})
	none := len(plain.New(0).Paths())
	for _, right := range []plant{of(4, 0, none), of(5, 1, none), all(wrote, of(11, 1, none))} {
		for _, v := range Check(sorted(all(opened, right)(good())), bounds()).Violations {
			if v.Invariant == "backup" {
				t.Error(v)
			}
		}
	}
	mustFind(t, all(opened, of(5, 0, none))(good()), "backup", "of another state")
	mustFind(t, all(opened, of(5, 1, none+1))(good()), "backup", "of another state")
	mustFind(t, all(opened, wrote, of(10, 1, none))(good()), "backup", "does not show")
}

// A write that a bound of the tree refuses changes nothing where bounds are small. Elsewhere none is refused.
func TestReplayOfSmallBounds(t *testing.T) {
	over := add(history.Event{At: at(31), Kind: history.Committed, Who: "n1", Index: 20, Ledger: &history.Ledger{
		Writes: []history.Write{{
			NumberedWrite: tree.NumberedWrite{
				Session: uint64(id), Attachment: 2, Number: 1, Transaction: tree.Transaction{Then: []tree.Op{
					tree.Create{Path: "/a", Kind: tree.Persistent},
				}},
			},
			At: tree.StampAt(20, 1), Result: &tree.Result{Stamp: tree.StampAt(20, 1), Outcome: tree.Outcome{
				Refused: &tree.RefusedError{Code: tree.OverLimit},
			}},
		}},
	}})
	mustFind(t, over(good()), "I9", "took the other way")
	small := bounds()
	small.Small = true
	r := Check(sorted(over(good())), small)
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Checked["bound replay"] == 0 {
		t.Error("the refusal was not put to the test")
	}
}
