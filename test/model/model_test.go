package model

import (
	"math/rand/v2"
	"strings"
	"testing"

	"holdfast/test/model/check"
	"holdfast/test/model/search"
)

var suite = check.Suite[State, *Scope]{
	Protocol: &texts, All: All, Machine: Machine,
	LeftOuts: leftOuts, ByWalks: true, Wholes: completes, Wides: wides, Walks: 200,
}

func TestEveryRuleThatIsLeftOutIsMissed(t *testing.T) { suite.RulesLeftOut(t) }

func TestNothingBreaksInAnyHistoryOfASmallScope(t *testing.T) { suite.SmallScopes(t) }

func TestNothingBreaksInRandomHistoriesOfWideScopes(t *testing.T) { suite.WideScopes(t) }

func TestImpossibleEventsChangeNothing(t *testing.T) { suite.Impossible(t) }

func TestExploreAndWalkAgree(t *testing.T) {
	suite.ExploreAndWalk(t, check.LeftOut[*Scope]{
		Without: search.Rules(E2Word), Breaks: I1, Scope: whole("calm", func(*Scope) {}),
	})
}

// A state and its canonical form must have the same future: the same actions are possible in both, and break the same
// invariants.
func TestCanonicalFormForgetsNothingThatMatters(t *testing.T) {
	for _, row := range leftOuts {
		wanted := max(row.Breaks, I1)
		exact, canonical := Machine(row.Scope, row.Without, wanted), Machine(row.Scope, row.Without, wanted)
		for seed := range uint64(10) {
			random := rand.New(rand.NewPCG(seed, 5))
			a, b := exact.First, exact.First
			canonical.Canonicalize(&b)
			for range 3_000 {
				event := random.IntN(exact.Events)
				if random.IntN(100) == 0 {
					event = 0 // time passes
				}
				exact.Step.Broken, canonical.Step.Broken = 0, 0
				is, was := exact.Try(&a, event), canonical.Try(&b, event)
				breaks, broke := exact.Step.Broken&wanted, canonical.Step.Broken&wanted
				if is != was || breaks != broke {
					t.Fatalf("without %s, seed %d: %s is possible %v and breaks %q, after forgetting %v and %q",
						texts.Names(row.Without), seed, exact.Name(event), is, texts.Broken(breaks), was, texts.Broken(broke))
				}
				if breaks != 0 {
					break
				}
				if is {
					canonical.Canonicalize(&b)
				}
			}
		}
	}
}

// A model in which nothing happens breaks nothing. So in the wide scopes every action must happen, sessions must
// expire, and promises and moves must be made.
func TestEverythingHappens(t *testing.T) {
	happened := make([]bool, len(actions))
	var expired, promised, served bool
	events := map[*Scope][]event{}
	for _, scope := range wides {
		events[scope] = possible(scope)
	}
	suite.Histories(150, func(scope *Scope, event int, now *State) {
		happened[events[scope][event].action] = true
		for s := range scope.sessions() {
			f := now.Truth.Session[s]
			expired = expired || f.Ended != 0
			promised = promised || f.Safe > now.Now
			served = served || f.ServedAttempt != 0
		}
	})
	if !expired || !promised || !served {
		t.Errorf("sessions expired: %v, were promised to be safe: %v, were served elsewhere: %v; want all true", expired,
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
