package writes

import (
	"testing"

	"holdfast/test/model/check"
	"holdfast/test/model/search"
)

var suite = check.Suite[State, *Scope]{
	Protocol: &texts, All: All, Machine: Machine,
	LeftOuts: leftOuts, Wholes: wholes(), Wides: wides, Walks: 1000, Glance: 50_000,
}

func TestEveryRuleThatIsLeftOutIsMissed(t *testing.T) { suite.RulesLeftOut(t) }

func TestNothingBreaksInAnyHistoryOfASmallScope(t *testing.T) { suite.SmallScopes(t) }

func TestNothingBreaksInRandomHistoriesOfWideScopes(t *testing.T) { suite.WideScopes(t) }

func TestImpossibleEventsChangeNothing(t *testing.T) { suite.Impossible(t) }

func TestExploreAndWalkAgree(t *testing.T) {
	suite.ExploreAndWalk(t, check.LeftOut[*Scope]{Without: search.Rules(X4), Breaks: I9, Scope: takenBack, Seed: 1})
}

// A model in which nothing happens breaks nothing: every action happens, and every status comes up.
func TestEverythingHappens(t *testing.T) {
	happened, all := make([]bool, len(actions)), possible()
	statuses := map[status]bool{}
	suite.Histories(200, func(_ *Scope, event int, now *State) {
		happened[all[event].action] = true
		for _, p := range now.Process {
			for _, s := range p.Status {
				statuses[s] = true
			}
		}
	})
	for i, act := range actions {
		if !happened[i] {
			t.Errorf("it never happens that %s", act.text)
		}
	}
	for _, s := range []status{pending, hadEffect, never, unknownFate} {
		if !statuses[s] {
			t.Errorf("no write has status %d", s)
		}
	}
}
