package writes

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdfast/test/model/check"
)

// nothingFound bounds the states of a search that is to find nothing.
const nothingFound = 50_000

func TestEveryRuleThatIsLeftOutIsMissed(t *testing.T) {
	for _, row := range leftOuts {
		t.Run(row.without.String()+" "+row.breaks.String(), func(t *testing.T) {
			t.Parallel()
			search := Search{Scope: row.scope, Without: row.without, For: row.breaks, States: 2_000_000}
			if row.breaks == 0 {
				check.Told(t, "| %s | %s | nothing found | %s | |", row.names(), row.text(), row.scope.Name)
				search.For, search.States = All, nothingFound
			}
			got := Explore(t.Context(), search)
			t.Logf("%d states\n%s", got.States, Story(row.scope, row.without, got.Story))
			if got.Broken != row.breaks {
				t.Fatalf("%v: breaks %v, want %v", row.without, got.Broken, row.breaks)
			}
			if row.breaks == 0 {
				return
			}
			check.Told(t, "| %s | %s | %v | %s | %d |", row.names(), row.text(), row.breaks, row.scope.Name,
				len(got.Story))
			search.Without = 0
			if broken := search.replay(got.Story); broken != 0 {
				t.Errorf("the same steps break %v with all rules in force\n%s", broken, Story(row.scope, 0, got.Story))
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
func (w *Search) replay(history []event) Invariants {
	first := Initial(w.Without)
	x := w.step(&first)
	for _, e := range history {
		x.try(e)
	}
	if !x.settles(possible()) {
		x.Broken |= I18
	}
	return x.Broken
}

func TestNothingBreaksInAnyHistoryOfASmallScope(t *testing.T) {
	limit, most := check.Bounds(t)
	for _, scope := range completes {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			got := Explore(t.Context(), Search{Scope: scope, For: All, States: most})
			t.Logf("%d states, depth %d, %.0f states/s", got.States, got.Depth, float64(got.States)/got.Took.Seconds())
			if got.Broken != 0 {
				t.Fatalf("%v breaks\n%s", got.Broken, Story(scope, 0, got.Story))
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
				ctx, states = bounded, most/5 // a state takes up to 150 bytes
			}
			got := Explore(ctx, Search{Scope: scope, For: All, States: states})
			t.Logf("%d states, depth %d, complete %v, %.0f states/s", got.States, got.Depth, got.Complete,
				float64(got.States)/got.Took.Seconds())
			if got.Broken != 0 {
				t.Errorf("%v breaks\n%s", got.Broken, Story(scope, 0, got.Story))
			}
		})
	}
}

func TestNothingBreaksInRandomHistoriesOfWideScopes(t *testing.T) {
	limit, _ := check.Bounds(t)
	for _, scope := range wides {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel, count, seed := t.Context(), func() {}, 1000, uint64(1)
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
				count, seed = 1<<40, rand.Uint64()
			}
			defer cancel()
			got := Walk(ctx, Walks{Search: Search{Scope: scope, For: All}, Seed: seed, Count: count})
			t.Logf("seed %d: %d walks, %d steps, %.0f steps/s", seed, got.Walks, got.Steps,
				float64(got.Steps)/got.Took.Seconds())
			if got.Broken != 0 {
				t.Errorf("seed %d breaks %v\n%s", got.Seed, got.Broken, Story(scope, 0, got.Story))
			}
		})
	}
}

// Walks find what Explore finds, in histories that are no shorter.
func TestExploreAndWalkAgree(t *testing.T) {
	search := Search{Scope: takenBack, Without: Rules(X4), For: I9}
	shortest := Explore(t.Context(), search)
	if shortest.Broken != I9 {
		t.Fatalf("Explore breaks %v in %d states, want I9", shortest.Broken, shortest.States)
	}
	walked := Walk(t.Context(), Walks{Search: search, Seed: 1, Count: 200_000})
	if walked.Broken != I9 {
		t.Fatalf("%d walks break %v, want I9", walked.Walks, walked.Broken)
	}
	if len(walked.Story) < len(shortest.Story) {
		t.Errorf("a walk finds %d steps and Explore %d: Explore does not find the shortest history", len(walked.Story),
			len(shortest.Story))
	}
}

// An event that is not possible leaves the state as it is: Explore relies on it.
func TestImpossibleEventsChangeNothing(t *testing.T) {
	events := possible()
	for _, row := range leftOuts {
		search := Search{Scope: row.scope, Without: row.without}
		first := Initial(row.without)
		x := search.step(&first)
		random := rand.New(rand.NewPCG(1, 8))
		for range 20_000 {
			before := x.State
			if e := events[random.IntN(len(events))]; !x.try(e) && x.State != before {
				t.Fatalf("%v: %v is not possible, and changes the state", row.without, e)
			}
		}
	}
}

// A model in which nothing happens breaks nothing: every action happens, and every verdict and status comes up.
func TestEverythingHappens(t *testing.T) {
	happened := make([]bool, len(actions))
	verdicts, statuses := map[verdict]bool{}, map[status]bool{}
	for _, scope := range wides {
		search := Search{Scope: scope, For: All}
		for seed := range uint64(200) {
			history, _ := search.once(possible(), seed)
			first := Initial(0)
			x := search.step(&first)
			x.watch = func(e entry) { verdicts[e.Verdict] = true }
			for _, e := range history {
				x.try(e)
				happened[e.action] = true
				for _, p := range x.Process {
					for _, s := range p.Status {
						statuses[s] = true
					}
				}
			}
		}
	}
	for i, act := range actions {
		if !happened[i] {
			t.Errorf("it never happens that %s", act.text)
		}
	}
	for _, v := range []verdict{applied, repeat, gap, window, fenced} {
		if !verdicts[v] {
			t.Errorf("no write is %v", v)
		}
	}
	for _, s := range []status{pending, tookEffect, never, untold} {
		if !statuses[s] {
			t.Errorf("no write has status %d", s)
		}
	}
}
