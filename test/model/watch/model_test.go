package watch

import (
	"slices"
	"testing"

	"holdfast/test/model/check"
)

var suite = check.Suite[State, *Scope]{
	Protocol: &texts, All: All, Machine: Machine,
	LeftOuts: leftOuts, Wholes: wholes(), Wides: wides, Walks: 300, Glance: 20_000,
}

func TestEveryRuleThatIsLeftOutIsMissed(t *testing.T) { suite.RulesLeftOut(t) }

func TestNothingBreaksInAnyHistoryOfASmallScope(t *testing.T) { suite.SmallScopes(t) }

func TestNothingBreaksInRandomHistoriesOfWideScopes(t *testing.T) { suite.WideScopes(t) }

func TestImpossibleEventsChangeNothing(t *testing.T) { suite.Impossible(t) }

// onlyWithout are the actions that happen only where a rule is left out.
var onlyWithout = []string{
	"$n's ring gets the changes (G1)", "the node continues the read (G2)", "the client receives a read beside",
	"$n answers a read beside",
}

// A model in which nothing happens breaks nothing: every action happens, every class of items is sent, and every watch
// is registered.
func TestEverythingHappens(t *testing.T) {
	happened, sent, placed := make([]bool, len(actions)), map[uint8]bool{}, map[int]bool{}
	all := possible()
	suite.Histories(200, func(_ *Scope, event int, now *State) {
		happened[all[event].action] = true
		for w := range now.Client.Watch {
			placed[w] = placed[w] || now.Client.Watch[w].Placed == 1
		}
		for _, i := range now.Conn.Feed.Items[:now.Conn.Feed.Len] {
			sent[i.Class] = true
		}
	})
	for i, act := range actions {
		if !happened[i] && !slices.Contains(onlyWithout, act.text) {
			t.Errorf("it never happens that %s", act.text)
		}
	}
	for class := folds; class <= losses; class++ {
		if !sent[class] {
			t.Errorf("no connection is sent an item of class %d", class)
		}
	}
	for w := range watches {
		if !placed[w] {
			t.Errorf("no node has the watch %s", name(w))
		}
	}
}
