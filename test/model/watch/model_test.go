package watch

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdfast/test/model/check"
	"holdfast/test/model/search"
)

// nothingFound bounds the states of a search that is to find nothing.
const nothingFound = 20_000

func TestEveryRuleThatIsLeftOutIsMissed(t *testing.T) {
	for _, row := range leftOuts {
		t.Run(row.without.String()+" "+row.breaks.String(), func(t *testing.T) {
			t.Parallel()
			w := Search{Scope: row.scope, Without: row.without}
			wanted, most := row.breaks, 2_000_000
			if row.breaks == 0 {
				check.Told(t, "| %s | %s | nothing found | %s | |", row.names(), row.text(), row.scope.Name)
				wanted, most = All, nothingFound
			}
			got := search.Explore(t.Context(), w.Machine(), uint32(wanted), most)
			t.Logf("%d states\n%s", got.States, w.Story(got.Story))
			if Invariants(got.Broken) != row.breaks {
				t.Fatalf("%v: breaks %v, want %v", row.without, Invariants(got.Broken), row.breaks)
			}
			if row.breaks == 0 {
				return
			}
			check.Told(t, "| %s | %s | %v | %s | %d |", row.names(), row.text(), row.breaks, row.scope.Name,
				len(got.Story))
			w.Without = 0
			if broken := w.replay(got.Story); broken != 0 {
				t.Errorf("the same steps break %v with all rules in force\n%s", broken, w.Story(got.Story))
			}
		})
	}
	for r := range ruleCount {
		if !slices.ContainsFunc(leftOuts, func(row leftOut) bool { return row.without == Rules(r) }) {
			t.Errorf("no row of leftOuts leaves out %v alone", r)
		}
	}
}

// names returns the names of the rules that are left out.
func (row leftOut) names() string { return strings.TrimPrefix(row.without.String(), "without ") }

// text says what is left out.
func (row leftOut) text() string {
	var texts []string
	for r := range ruleCount {
		if row.without.has(r) {
			texts = append(texts, rules[r].without)
		}
	}
	return strings.Join(texts, "; ")
}

// replay takes the steps of a history that are possible, and settles. It returns what they break.
func (w *Search) replay(history []int) Invariants {
	m := w.Machine()
	s := m.First
	for _, e := range history {
		if _, broken := m.Try(&s, e); broken != 0 {
			return Invariants(broken)
		}
	}
	return Invariants(m.Settle(s))
}

func TestNothingBreaksInAnyHistoryOfASmallScope(t *testing.T) {
	limit, most := check.Bounds(t)
	for _, scope := range completes {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			w := Search{Scope: scope}
			got := search.Explore(t.Context(), w.Machine(), uint32(All), most)
			t.Logf("%d states, depth %d, %.0f states/s", got.States, got.Depth, float64(got.States)/got.Took.Seconds())
			if got.Broken != 0 {
				t.Fatalf("%v breaks\n%s", Invariants(got.Broken), w.Story(got.Story))
			}
			if !got.Complete {
				t.Error("the search did not see all states")
			}
			check.Told(t, "| %s | %d | %d |", scope.Name, got.States, got.Depth)
		})
	}
	for _, scope := range wides {
		t.Run(scope.String(), func(t *testing.T) {
			ctx, states := t.Context(), nothingFound
			if limit > 0 {
				bounded, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				ctx, states = bounded, most/20 // a state takes up to 500 bytes
			}
			w := Search{Scope: scope}
			got := search.Explore(ctx, w.Machine(), uint32(All), states)
			t.Logf("%d states, depth %d, complete %v, %.0f states/s", got.States, got.Depth, got.Complete,
				float64(got.States)/got.Took.Seconds())
			if got.Broken != 0 {
				t.Errorf("%v breaks\n%s", Invariants(got.Broken), w.Story(got.Story))
			}
		})
	}
}

func TestNothingBreaksInRandomHistoriesOfWideScopes(t *testing.T) {
	limit, _ := check.Bounds(t)
	for _, scope := range wides {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel, count, seed := t.Context(), func() {}, 300, uint64(1)
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
				count, seed = 1<<40, rand.Uint64()
			}
			defer cancel()
			w := Search{Scope: scope}
			got := search.Walk(ctx, w.Machine(), uint32(All), seed, count)
			t.Logf("seed %d: %d walks, %d steps, %.0f steps/s", seed, got.Walks, got.Steps,
				float64(got.Steps)/got.Took.Seconds())
			if got.Broken != 0 {
				t.Errorf("seed %d breaks %v\n%s", got.Seed, Invariants(got.Broken), w.Story(got.Story))
			}
		})
	}
}

// onlyWithout are the actions that happen only where a rule is left out.
var onlyWithout = []string{
	"$n's ring takes the changes (G1)", "the node goes on with the read (G2)", "the client hears of a read beside",
	"$n answers a read beside",
}

// A model in which nothing happens breaks nothing: every action happens, every kind of thing is told, and every watch
// hears something.
func TestEverythingHappens(t *testing.T) {
	happened, told, heard := make([]bool, len(actions)), map[uint8]bool{}, map[int]bool{}
	for _, scope := range wides {
		w := Search{Scope: scope}
		m, all := w.Machine(), possible()
		for seed := range uint64(200) {
			history, _ := search.Once(m, seed)
			s := m.First
			for _, e := range history {
				for w := range s.Client.Watch {
					heard[w] = heard[w] || s.Client.Watch[w].Placed == 1
				}
				m.Try(&s, e)
				happened[all[e].action] = true
				for _, i := range s.Conn.Feed.Items[:s.Conn.Feed.Len] {
					told[i.Class] = true
				}
			}
		}
	}
	for i, act := range actions {
		if !happened[i] && !slices.Contains(onlyWithout, act.text) {
			t.Errorf("it never happens that %s", act.text)
		}
	}
	for class := folds; class <= losses; class++ {
		if !told[class] {
			t.Errorf("no connection is told anything of class %d", class)
		}
	}
	for w := range watches {
		if !heard[w] {
			t.Errorf("no node has the watch %s", name(w))
		}
	}
}
