package check

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/test/model/search"
)

// Suite describes the searches of a model's tests. C is a scope.
type Suite[S comparable, C Scope] struct {
	Protocol *search.Protocol
	All      search.Invariants
	Machine  func(scope C, without search.Without, wanted search.Invariants) *search.Machine[S]

	// LeftOuts leave out each rule separately, in the order of the rules' document, and pairs of rules that cover each
	// other.
	LeftOuts []LeftOut[C]
	// ByWalks reports that the scopes of LeftOuts are too wide to be explored.
	ByWalks bool
	// Wholes are seen whole.
	Wholes []Whole[C]
	// Wides are walked at random, with a number of histories in every run. A number of their first states is explored.
	Wides         []C
	Walks, Glance int
}

// Scope bounds what happens in a history.
type Scope interface {
	comparable
	String() string
	// Title is the name in results.md.
	Title() string
}

// LeftOut is a row of the table in results.md: what breaks in a scope without some rules. Breaks is 0 if nothing does.
type LeftOut[C Scope] struct {
	Without search.Without
	Breaks  search.Invariants
	Scope   C
	// Seed is the number of the first walk, close to the one that finds the story.
	Seed uint64
}

// Whole is a scope that a search sees whole, for some invariants, with all rules in force.
type Whole[C Scope] struct {
	Scope C
	For   search.Invariants
	// Wide: the row runs only with TIME.
	Wide bool
}

// Bounds of the states and walks of a search without a rule.
const (
	toFind      = 2_000_000
	toFindWalks = 200_000
	nothing     = 50_000
	nothingWalk = 2_000
)

// find searches for the invariant that a row breaks.
func (s *Suite[S, C]) find(ctx context.Context, row LeftOut[C]) (search.Invariants, []int) {
	wanted, states, walks := row.Breaks, toFind, toFindWalks
	if wanted == 0 {
		wanted, states, walks = s.All, nothing, nothingWalk
	}
	if s.ByWalks {
		got := search.Walk(ctx, s.Machine(row.Scope, row.Without, wanted), row.Seed, walks)
		return got.Broken, got.Story
	}
	got := search.Explore(ctx, func() *search.Machine[S] { return s.Machine(row.Scope, row.Without, wanted) }, states)
	return got.Broken, got.Story
}

// RulesLeftOut requires that a search finds each row of LeftOuts, that results.md has the row, and that the same steps
// break nothing with all rules in force.
func (s *Suite[S, C]) RulesLeftOut(t *testing.T) {
	t.Helper()
	for _, row := range s.LeftOuts {
		names, texts, breaks := s.Protocol.Names(row.Without), s.Protocol.Texts(row.Without), s.Protocol.Broken(row.Breaks)
		t.Run(names+" "+breaks, func(t *testing.T) {
			t.Parallel()
			m := s.Machine(row.Scope, row.Without, row.Breaks)
			broken, story := s.find(t.Context(), row)
			if broken != row.Breaks {
				t.Fatalf("without %s (%s) the search breaks %q, want %q\n%s", names, texts, s.Protocol.Broken(broken), breaks,
					m.Story(story))
			}
			if row.Breaks == 0 {
				InResults(t, "| %s | %s | nothing found | %s | |", names, texts, row.Scope.Title())
				return
			}
			t.Logf("%d steps\n%s", len(story), m.Story(story))
			InResults(t, "| %s | %s | %s | %s | %d |", names, texts, breaks, row.Scope.Title(), len(story))
			if _, broken := s.Machine(row.Scope, 0, s.All).Replay(story); broken != 0 {
				t.Errorf("the same steps break %s with all rules in force", s.Protocol.Broken(broken))
			}
		})
	}
	for r, text := range s.Protocol.Rules {
		alone := func(row LeftOut[C]) bool { return row.Without == search.Rules(search.Rule(r)) }
		if !slices.ContainsFunc(s.LeftOuts, alone) {
			t.Errorf("no row leaves out %s alone", text[0])
		}
	}
}

// SmallScopes requires that nothing breaks in any history of Wholes, and that results.md has the number of their
// states.
func (s *Suite[S, C]) SmallScopes(t *testing.T) {
	t.Helper()
	for _, c := range s.Wholes {
		s.explore(t, c)
	}
	for _, scope := range s.Wides {
		if s.Glance > 0 {
			s.explore(t, Whole[C]{scope, s.All, true})
		}
	}
}

func (s *Suite[S, C]) explore(t *testing.T, c Whole[C]) {
	t.Helper()
	limit, most := Bounds(t)
	t.Run(c.Scope.String()+" "+s.Protocol.Broken(c.For), func(t *testing.T) {
		ctx := t.Context()
		switch {
		case !c.Wide:
		case limit > 0:
			bounded, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			ctx = bounded
		case s.Glance > 0:
			most = s.Glance
		default:
			t.Skip("too many states for every run: TIME=10m includes it")
		}
		newMachine := func() *search.Machine[S] { return s.Machine(c.Scope, 0, c.For) }
		got := search.Explore(ctx, newMachine, most)
		t.Logf("%d states, depth %d, complete %v, %.0f states/s", got.States, got.Depth, got.Complete,
			float64(got.States)/got.Duration.Seconds())
		if got.Broken != 0 {
			t.Fatalf("%s breaks\n%s", s.Protocol.Broken(got.Broken), newMachine().Story(got.Story))
		}
		switch {
		case !got.Complete && !c.Wide:
			t.Error("the search did not see all states")
		case !got.Complete, c.Wide && s.Glance > 0:
		case c.For == s.All:
			InResults(t, "| %s | %d | %d |", c.Scope.Title(), got.States, got.Depth)
		default:
			InResults(t, "| %s | %s | %d | %d |", c.Scope.Title(), s.Protocol.Broken(c.For), got.States, got.Depth)
		}
	})
}

// WideScopes requires that nothing breaks in random histories of Wides, and of the scopes of LeftOuts if those are
// wide.
func (s *Suite[S, C]) WideScopes(t *testing.T) {
	t.Helper()
	limit, _ := Bounds(t)
	scopes := slices.Clone(s.Wides)
	for _, row := range s.LeftOuts {
		if s.ByWalks && !slices.Contains(scopes, row.Scope) {
			scopes = append(scopes, row.Scope)
		}
	}
	for _, scope := range scopes {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel, count, seed := t.Context(), func() {}, s.Walks, uint64(1)
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
				count, seed = 1<<40, rand.Uint64()
			}
			defer cancel()
			m := s.Machine(scope, 0, s.All)
			got := search.Walk(ctx, m, seed, count)
			t.Logf("seed %d: %d walks, %d steps, %.0f steps/s", seed, got.Walks, got.Steps,
				float64(got.Steps)/got.Duration.Seconds())
			if got.Broken != 0 {
				t.Errorf("seed %d breaks %s\n%s", got.Seed, s.Protocol.Broken(got.Broken), m.Story(got.Story))
			}
		})
	}
}

// ExploreAndWalk requires that walks find the same invariant as Explore, in a history that is no shorter, and that the
// history is real: it replays without [search.Machine.Canonicalize].
func (s *Suite[S, C]) ExploreAndWalk(t *testing.T, row LeftOut[C]) {
	t.Helper()
	newMachine := func() *search.Machine[S] { return s.Machine(row.Scope, row.Without, row.Breaks) }
	m := newMachine()
	shortest := search.Explore(t.Context(), newMachine, toFind)
	if shortest.Broken != row.Breaks {
		t.Fatalf("Explore breaks nothing in %d states", shortest.States)
	}
	if left, broken := m.Replay(shortest.Story); broken != row.Breaks || len(left) != len(shortest.Story) {
		t.Errorf("the history does not replay\n%s", m.Story(shortest.Story))
	}
	walked := search.Walk(t.Context(), m, row.Seed, toFindWalks)
	if walked.Broken != row.Breaks {
		t.Fatalf("%d walks break nothing", walked.Walks)
	}
	if len(walked.Story) < len(shortest.Story) {
		t.Errorf("a walk finds %d steps and Explore %d: Explore does not find the shortest history", len(walked.Story),
			len(shortest.Story))
	}
	t.Logf("%d steps at least, %d found by walking\n%s", len(shortest.Story), len(walked.Story),
		m.Story(shortest.Story))
}

// Impossible requires that an impossible event leaves the state unchanged: searches rely on it.
func (s *Suite[S, C]) Impossible(t *testing.T) {
	t.Helper()
	for _, row := range s.LeftOuts {
		m := s.Machine(row.Scope, row.Without, s.All)
		random := rand.New(rand.NewPCG(1, 8))
		now := m.First
		for range 10_000 {
			before, event := now, random.IntN(m.Events)
			if !m.Try(&now, event) && now != before {
				t.Fatalf("without %s: %s is not possible, and changes the state", s.Protocol.Names(row.Without), m.Name(event))
			}
		}
	}
}

// Histories plays count random histories of each of Wides, and calls f with each event and the state behind it.
func (s *Suite[S, C]) Histories(count int, f func(scope C, event int, now *S)) {
	for _, scope := range s.Wides {
		m := s.Machine(scope, 0, s.All)
		for seed := range uint64(count) {
			history, _ := m.Once(seed)
			now := m.First
			for _, event := range history {
				m.Try(&now, event)
				f(scope, event, &now)
			}
		}
	}
}
