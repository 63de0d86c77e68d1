package model

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdfast/test/model/check"
)

func TestEveryRuleThatIsLeftOutIsMissed(t *testing.T) {
	for _, row := range leftOuts {
		t.Run(row.rule.String()+" "+row.breaks.String(), func(t *testing.T) {
			t.Parallel()
			search := Search{Scope: row.scope, Without: Rules(row.rule), For: row.breaks}
			if row.breaks == 0 {
				check.Told(t, "| %v | %s | nothing found | %s | |", row.rule, rules[row.rule].without, row.scope.Name)
				search.For = I1 | I3 | I4
				if got := Walk(t.Context(), Walks{Search: search, Seed: row.seed, Count: 2000}); got.Broken != 0 {
					t.Errorf("without %v the table says that nothing breaks, and %v breaks\n%s", row.rule, got.Broken,
						search.story(got.Story))
				}
				return
			}
			got := Walk(t.Context(), Walks{Search: search, Seed: row.seed, Count: 200_000})
			if got.Broken != row.breaks {
				t.Fatalf("without %v (%s) %d walks break another invariant or none, want %v", row.rule,
					rules[row.rule].without,
					got.Walks, row.breaks)
			}
			t.Logf("seed %d, %d steps\n%s", got.Seed, len(got.Story), search.story(got.Story))
			check.Told(t, "| %v | %s | %v | %s | %d |", row.rule, rules[row.rule].without, row.breaks, row.scope.Name,
				len(got.Story))
			search.Without = 0
			if _, broken := search.replay(got.Story, row.breaks); broken {
				t.Errorf("the same steps break %v with all rules in force\n%s", row.breaks, search.story(got.Story))
			}
		})
	}
	for r := range ruleCount {
		if !slices.ContainsFunc(leftOuts, func(row leftOut) bool { return row.rule == r }) {
			t.Errorf("no row of leftOuts leaves out %v", r)
		}
	}
}

func TestNothingBreaksInAnyHistoryOfASmallScope(t *testing.T) {
	limit, most := check.Bounds(t)
	for _, c := range completes {
		t.Run(c.scope.Name+" "+c.invariants.String(), func(t *testing.T) {
			if c.wide && limit == 0 {
				t.Skip("too many states for every run: TIME=10m includes it")
			}
			ctx := t.Context()
			if c.wide {
				bounded, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				ctx = bounded
			}
			got := Explore(ctx, Search{Scope: c.scope, For: c.invariants, States: most})
			if got.Complete && !c.wide {
				check.Told(t, "| %s | %v | %d | %d |", c.scope.Name, c.invariants, got.States, got.Depth)
			}
			t.Logf("%v: %d states, depth %d, complete %v, %.0f states/s", c.scope, got.States, got.Depth, got.Complete,
				float64(got.States)/got.Took.Seconds())
			if got.Broken != 0 {
				t.Fatalf("%v breaks\n%s", got.Broken, Story(c.scope, 0, got.Story))
			}
			if !got.Complete && !c.wide {
				t.Error("the search did not see all states")
			}
		})
	}
}

func TestNothingBreaksInRandomHistoriesOfWideScopes(t *testing.T) {
	limit, _ := check.Bounds(t)
	scopes := slices.Clone(wides)
	for _, row := range leftOuts {
		if !slices.Contains(scopes, row.scope) {
			scopes = append(scopes, row.scope)
		}
	}
	for _, scope := range scopes {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel, count, seed := t.Context(), func() {}, 200, uint64(1)
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
				count, seed = 1<<40, rand.Uint64()
			}
			defer cancel()
			search := Search{Scope: scope, For: All}
			got := Walk(ctx, Walks{Search: search, Seed: seed, Count: count})
			t.Logf("seed %d: %d walks, %d steps, %.0f steps/s", seed, got.Walks, got.Steps,
				float64(got.Steps)/got.Took.Seconds())
			if got.Broken != 0 {
				t.Errorf("seed %d breaks %v\n%s", got.Seed, got.Broken, search.story(got.Story))
			}
		})
	}
}

// A state and its canonical form must have the same future: the same actions are possible in both, and break the same
// invariants.
func TestCanonicalFormForgetsNothingThatMatters(t *testing.T) {
	for _, row := range leftOuts {
		search := Search{Scope: row.scope, Without: Rules(row.rule), For: max(row.breaks, I1)}
		first, events := Initial(search.Scope, search.Without), possible(search.Scope)
		for seed := range uint64(10) {
			random := rand.New(rand.NewPCG(seed, 5))
			exact := search.step(&first)
			canonical := exact
			canonical.canonical()
			dice := load(events, random)
			for range 8_000 {
				e := dice.throw(random)
				if random.IntN(100) == 0 {
					e = event{}
				}
				a, b := exact.try(e), canonical.try(e)
				if a != b || exact.Broken&search.For != canonical.Broken&search.For {
					t.Fatalf("without %v, seed %d: %v is possible %v and breaks %v, after forgetting %v and %v",
						row.rule, seed, e, a, exact.Broken&search.For, b, canonical.Broken&search.For)
				}
				if exact.Broken&search.For != 0 {
					break
				}
				exact.Broken, canonical.Broken = 0, 0
				if a {
					canonical.canonical()
				}
			}
		}
	}
}

func TestPackedStatesComeBackAsTheyWere(t *testing.T) {
	scope := movingBack
	events := possible(scope)
	random := rand.New(rand.NewPCG(1, 6))
	first := Initial(scope, 0)
	x := (&Search{Scope: scope, For: All}).step(&first)
	dice := load(events, random)
	var chunk []byte
	var want []State
	for len(want) < 200 {
		if e := dice.throw(random); x.try(e) || x.try(event{}) {
			chunk = packed(chunk, &x.State, uint32(len(want)))
			want = append(want, x.State)
		} else if x.Now == scope.Timeout+scope.Ticks {
			x.State = first
		}
	}
	for i := range want {
		var got State
		var number uint32
		if number, chunk = unpack(&got, chunk); got != want[i] || number != uint32(i) {
			t.Fatalf("state %d comes back different, with number %d", i, number)
		}
	}
	if len(chunk) != 0 {
		t.Errorf("%d bytes are left after the last state", len(chunk))
	}
}

// Explore must see every state once, in whatever order its workers come.
func TestExploreAndWalkAgree(t *testing.T) {
	scope := whole("calm", func(*Scope) {})
	search := Search{Scope: scope, Without: Rules(E2Word), For: I1}
	shortest := Explore(t.Context(), search)
	if shortest.Broken != I1 {
		t.Fatalf("Explore breaks nothing in %d states, want I1", shortest.States)
	}
	if left, ok := search.replay(shortest.Story, I1); !ok || len(left) != len(shortest.Story) {
		t.Errorf("the history does not replay with exact states\n%s", search.story(shortest.Story))
	}
	walked := Walk(t.Context(), Walks{Search: search, Count: 100_000})
	if walked.Broken != I1 {
		t.Fatalf("%d walks break nothing, want I1", walked.Walks)
	}
	if len(walked.Story) < len(shortest.Story) {
		t.Errorf("a walk finds %d steps and Explore %d: Explore does not find the shortest history", len(walked.Story),
			len(shortest.Story))
	}
	t.Logf("%d steps at least, %d found by walking\n%s", len(shortest.Story), len(walked.Story),
		search.story(shortest.Story))
}

func (w *Search) story(history []event) string { return Story(w.Scope, w.Without, history) }

// A model in which nothing happens breaks nothing. So in the wide scopes every action must happen, sessions must
// expire, and promises and moves must be made.
func TestEverythingHappens(t *testing.T) {
	happened := make([]bool, len(actions))
	var expired, promised, served bool
	for _, scope := range wides {
		first, events := Initial(scope, 0), possible(scope)
		search := Search{Scope: scope, For: All}
		for seed := range uint64(150) {
			history, _ := search.once(&first, events, seed)
			x := search.step(&first)
			for _, e := range history {
				x.try(e)
				happened[e.action] = true
				for s := range scope.sessions() {
					f := x.Truth.Session[s]
					expired = expired || f.Ended != 0
					promised = promised || f.Safe > x.Now
					served = served || f.ServedAttempt != 0
				}
			}
		}
	}
	if !expired || !promised || !served {
		t.Errorf("sessions expired: %v, were promised to be safe: %v, were served elsewhere: %v; want all true",
			expired,
			promised, served)
	}
	for i, act := range actions {
		leftOutOnly := strings.HasSuffix(act.text, "as closing") || strings.Contains(act.text, "gives up waiting") ||
			strings.Contains(act.text, "older stream")
		if happened[i] == leftOutOnly {
			t.Errorf("action %q happened: %v", act.text, happened[i])
		}
	}
}
